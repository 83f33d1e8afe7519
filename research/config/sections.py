"""The sections of a config: every key with its unit or legal values.

The keys of an objective, a network, an optimizer or a schedule are in its file.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from research import objectives
from research.contract.errors import UserError, unknown
from research.contract.fields import choice, free_text, number, with_lines
from research.contract.parts import (
    Folder,
    chosen,
    default_of,
    field_of,
    key_fields,
    part,
    section_fields,
)
from research.data.options import DataOptions
from research.data.read.corpus import SPLITS, split_fractions
from research.distributed.options import MeshOptions
from research.metrics import signs
from research.optimize.options import OptimizerOptions

NETWORKS = Folder("research.networks", "Network")  # importing it would import Flax
TRACKERS = Folder("research.record.trackers", "Tracker")

dim = partial(number, most=2**20)  # the size of a dim of an array


@dataclass(frozen=True)
class RunSection:
    """The keys outside all sections."""

    seed: int = number(0, least=0, below=2**31)  # of parameters, order, noise, dropout


@dataclass(frozen=True)
class ModelSection:
    """The network; a module of research/networks."""

    network: str = part("transformer", NETWORKS)
    chosen: Any = chosen("network")  # the network


@dataclass(frozen=True)
class TrainOptions:
    """The loop."""

    steps: int = number(1000, least=1)
    phases: list[Any] = dataclasses.field(default_factory=list)  # [end, changes], ...:
    # until that fraction of the steps these keys have other values; [0.9,
    # {"data.length": 128}]; lengths, batches, micro-batches and dropout rates may
    # change
    minutes: float = number(0.0, least=0)  # training time of steps, over all starts of
    # the run, after which it stops before train.steps and is evaluated; schedules and
    # phases still refer to train.steps. 0: no limit
    batch: int = dim(32, least=1)  # examples per step, over all devices
    accumulate: int = dim(1, least=1)  # micro-batches per step
    init_from: str = free_text("", source="run")  # workdir or checkpoint whose
    # parameters to start from, or hf:DIR, a model in Hugging Face's layout; the run
    # takes its network and vocabulary, except for keys that are given
    init_scope: str = free_text("")  # path of the parameters to start from, such as
    # discriminator; "": all of them
    init_layers: list[int] = dataclasses.field(default_factory=list)  # layers of that
    # model, from 0, that initialize this run's layers in order: [0, 2, 4, 7, 9, 11] of
    # 12 (DistilBERT); []: all of them, if the numbers of layers are equal
    log_every: int = number(10, least=1)  # steps
    eval_every: int = number(200, least=0)  # steps; 0: only at the end
    checkpoint_every: int = number(200, least=0)  # steps; 0: only at the end
    keep_checkpoints: int = number(2, least=1)  # number of newest checkpoints to keep
    checkpoint_words: list[int] = dataclasses.field(default_factory=list)  # numbers of
    # words seen at which a checkpoint is saved and kept, as in [1000000, 2000000]; a
    # text that is read twice counts twice (BabyLM's checkpoints). []: none
    max_words: int = number(0, least=0, most=2**50)  # that training may see; a run with
    # more steps is rejected. 0: no limit
    best_metric: str = free_text("")  # of evaluations, see research/metrics: the best
    # checkpoint by it is kept, tested at the end, and opens the run. "": the newest
    # opens it
    early_stopping_patience: int = number(0, least=0)  # evaluations without an
    # improvement after which training stops; 0: never
    early_stopping_rule: str = choice("patience", ("patience", "nonmonotonic"))  # when
    # to stop, with n the patience: patience: n evaluations in a row were not better
    # than the best; nonmonotonic: an evaluation is worse than the best of all but the
    # last n before it (NT-ASGD, Merity et al. 2018, algorithm 1)
    track: str = with_lines(free_text(""), TRACKERS.lines())  # TRACKER:PROJECT, which
    # gets what TensorBoard gets; "": none
    profile_steps: list[int] = dataclasses.field(default_factory=list)  # first and last
    # step of a jax.profiler trace, as in [10, 12], which TensorBoard shows; it slows
    # these steps; []: none

    def __post_init__(self) -> None:
        if not all(type(n) is int and n >= 0 for n in self.init_layers):
            raise ValueError(
                "train.init_layers must have whole numbers from 0, as in [0, 2], not "
                f"{[*self.init_layers]!r}"
            )
        words = [*self.checkpoint_words]
        whole = all(type(n) is int and n > 0 for n in words)
        if not whole or words != sorted({*words}):
            raise ValueError(
                "train.checkpoint_words must be ascending whole numbers above 0, as in "
                f"[1000000, 2000000], got {words!r}"
            )
        match self.profile_steps:
            case [] | ():
                pass
            case [int() as first, int() as last] if 1 <= first <= last <= self.steps:
                pass
            case _:
                raise ValueError(
                    "train.profile_steps must be [first, last], two steps from 1 to "
                    f"train.steps, or [], not {self.profile_steps!r}"
                )
        if self.best_metric and self.best_metric not in signs():
            raise unknown("train.best_metric", self.best_metric, signs())
        if self.early_stopping_rule != "patience" and not self.early_stopping_patience:
            raise ValueError(
                "train.early_stopping_rule is not read with "
                "train.early_stopping_patience=0; set the patience (the released "
                "AWD-LSTM has 5)"
            )
        if self.early_stopping_patience and not (self.best_metric and self.eval_every):
            raise ValueError(
                "train.early_stopping_patience needs train.best_metric and "
                "train.eval_every"
            )


@dataclass(frozen=True)
class ObjectiveSection:
    """What is hidden and scored; a module of research/objectives."""

    name: str = part("mlm", objectives.FOLDER)


SECTIONS = {
    "": RunSection,
    "data": DataOptions,
    "objective": ObjectiveSection,
    "model": ModelSection,
    "optimizer": OptimizerOptions,
    "mesh": MeshOptions,
    "train": TrainOptions,
}
"""Section -> the keys that it always has; its chosen parts add theirs."""

OPEN_SECTIONS = (
    "data.mixture",
    "objective.parts",
    "objective.base",
    "objective.teacher_model",
)
"""Sections whose keys the user chooses; JSON replaces such a section as a whole."""


def check_split(data: DataOptions) -> None:
    """Checks that no split is both a part of data.train and in files of its own.

    Raises:
      UserError: one is.
    """
    fractions = split_fractions(data.split) if data.split else ()
    for split, rate in zip(SPLITS[1:], fractions[1:], strict=False):
        if rate and getattr(data, split):
            raise UserError(
                f"data.{split} names files, but data.split={data.split} takes its "
                f"{split} split from data.train; give that split the fraction 0"
            )


def section_defaults(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A section's keys with the given values, and defaults for the others.

    Keys of `values` that the section does not have are left out.

    Raises:
      UserError: the values choose a part that does not exist.
    """
    found = {}
    for key, field in section_fields(SECTIONS[name], values, dotted(name)).items():
        value = values.get(key, default_of(field))
        found[key] = {} if is_open(name, key) and value == () else value
    return found


def dotted(name: str) -> str:
    """The prefix of a section's keys, e.g. "model."."""
    return f"{name}." if name else ""


def is_open(section: str, key: str) -> bool:
    """Whether the value of a key is a mapping that may have any keys."""
    return f"{section}.{key}" in OPEN_SECTIONS


def choices() -> Iterator[tuple[str, str, Folder]]:
    """(section, key, folder) of each key that chooses a part."""
    for name, section in SECTIONS.items():
        for field in key_fields(section):
            if folder := field.metadata.get("folder"):
                yield name, field.name, folder


def with_part(
    name: str, values: Mapping[str, Any], key: str, part_name: str
) -> dict[str, Any]:
    """The values of a section after it chooses another part.

    Keys that both parts have keep their values, if they mean the same in both.

    Raises:
      UserError: there is no such part.
    """
    if values[key] == part_name:
        return dict(values)
    folder = field_of(SECTIONS[name], key).metadata["folder"]
    own = {field.name for field in key_fields(SECTIONS[name])}
    kept = values if folder.share_keys else {k: values[k] for k in own}
    return section_defaults(name, {**kept, key: part_name})
