"""Sweeps over the rows of a published table: pretraining, then tuning on tasks.

A scale changes size, steps and data, not what differs between rows. "paper" is the
base size of an experiment, or the size that its sweep requests, with its own budget;
an experiment without sizes has the shape and budget of BERT-base.
"""

import functools
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from launch import user_code
from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from launch.sweeps import benchmarks
from launch.sweeps.published import TABLES, Arm, read_published
from launch.sweeps.scales import SCALES, Scale
from launch.sweeps.shared_keys import is_shared, with_shared
from launch.sweeps.tasks import Task
from research.config.config import Config
from research.contract.errors import UserError
from research.networks.transformer.positions import FOLDER as POSITIONS
from research.objectives import objective_class
from research.objectives.combined.composite import OfParts
from research.optimize.rules import OPTIMIZERS

EXPERIMENT = "experiments/finetune.py"
INIT_FROM, RATE = "train.init_from", "optimizer.learning_rate"
TEACHER = "objective.teacher"
NO_PRETRAINING = "no pretraining"


class Repeats(NamedTuple):
    """The repetitions of a row."""

    pretraining_seeds: int
    tuning_seeds: int  # fine-tuning seeds of each pretraining
    learning_rates: tuple[float, ...]  # learning rates of fine-tuning


# At smoke, networks learn no task from the state of one token at a rate of 1e-3.
REPEATS = {
    "smoke": Repeats(3, 1, (3e-4,)),
    "quick": Repeats(6, 1, (3e-4,)),
    "cpu": Repeats(6, 1, (3e-4,)),
    "small": Repeats(3, 1, (1e-4, 3e-4)),
    "paper": Repeats(3, 5, (2e-5, 3e-5, 4e-5, 5e-5)),
}

FORWARD = "left_to_right"
"""The method by which texts are scored from left to right."""

DISCRIMINATOR = {"train.init_scope": "discriminator", "objective.head": "linear"}

RowKeys = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""A function (row's name, flat config of its scale) -> further keys of the row."""


def sweep(
    name: str,
    scale: str,
    tasks: Mapping[str, Task],
    *,
    keys: RowKeys = lambda row, base: {},
    tuning: Mapping[str, Any] | None = None,
    size: str = "base",
    paper_mask_rate: bool = False,
    fresh: str = "",
) -> Iterator[tuple]:
    """The trials of all rows of experiments/claims/NAME.toml that have a config.

    Args:
      keys: further keys of each row, given the config of the scale.
      tuning: keys of all fine-tunings.
      size: the experiments' size at scale "paper".
      paper_mask_rate: whether masked LMs keep the paper's mask rate at each scale, for
        a table that is about it.
      fresh: name of a row whose network is fine-tuned from initial parameters.
    """
    paper = read_published(name)
    chosen = table_tasks(name, tasks, scale)
    of_row = {"keys": keys, "size": size, "paper_mask_rate": paper_mask_rate}
    for row, arm in paper.arms.items():
        for seed in range(REPEATS[scale].pretraining_seeds):
            start = pretraining(row, arm, scale, seed=seed, **of_row)
            if row != fresh:
                yield (*start, (row, "pretraining"))
            for task_name, task in chosen.items():
                own = (tuning or {}) | benchmarks.KEYS.get(task_name, {})
                for experiment, tuned in tunings(start, task, scale, own):
                    if row == fresh:
                        tuned = {k: v for k, v in tuned.items() if k != INIT_FROM}
                    yield experiment, tuned, (row, task_name)


def pretrainings(
    name: str, scale: str, *, keys: RowKeys, sizes: Mapping[str, str]
) -> Iterator[tuple]:
    """The trials of a table whose columns only need pretrainings; see `sweep`.

    Args:
      sizes: row -> the size of its experiment, at scale "paper".
    """
    for row, arm in read_published(name).arms.items():
        for seed in range(REPEATS[scale].pretraining_seeds):
            own = {"seed": seed, "keys": keys, "size": sizes[row]}
            yield (*pretraining(row, arm, scale, **own), (row, "pretraining"))


def with_baseline(
    row: str,
    start: Arm,
    tasks: Mapping[str, Task],
    scale: str,
    more: Mapping[str, Any],
    *,
    fresh: str = "",
) -> Iterator[tuple]:
    """The trials of one row: a pretraining and its fine-tunings on all tasks.

    Args:
      more: keys of all fine-tunings.
      fresh: also fine-tune its network, with its vocabulary, from initial parameters,
        as the row of this name.
    """
    yield (*start, (row, "pretraining"))
    for name, task in tasks.items():
        own = {**more, **benchmarks.KEYS.get(name, {})}
        for experiment, tuning in tunings(start, task, scale, own):
            yield experiment, tuning, (row, name)
            if fresh:
                untrained = {k: v for k, v in tuning.items() if k != INIT_FROM}
                yield experiment, untrained, (fresh, name)


def table_tasks(name: str, tasks: Mapping[str, Task], scale: str) -> dict[str, Task]:
    """The tasks of a published table's columns, or the probes of the scale.

    Raises:
      UserError: `tasks` has none of them.
    """
    paper = read_published(name)
    (columns, *_) = paper.rows.values()
    if SCALES[scale].probes:
        columns = benchmarks.probes(columns)
    return _shown_tasks({}, tuple(columns), tasks, paper.source)


def own_tasks(name: str, tasks: Mapping[str, Task], scale: str = "") -> dict[str, Task]:
    """The tasks of the columns of experiments/tables/NAME.toml, or the scale's probes.

    Args:
      scale: "": without probes, which are in English.

    Raises:
      UserError: `tasks` has none of them.
    """
    content = tomllib.loads((TABLES / f"{name}.toml").read_text("utf-8"))
    columns, metrics = tuple(content.get("columns", ())), content.get("metrics", {})
    if scale and SCALES[scale].probes:
        columns, metrics = benchmarks.probes(columns), {}
    return _shown_tasks(metrics, columns, tasks, f"{name}.toml")


def _shown_tasks(
    metrics: Mapping[str, str],
    columns: tuple[str, ...],
    tasks: Mapping[str, Task],
    source: str,
) -> dict[str, Task]:
    """The tasks of a table's columns, in its order, from those of --tasks.

    Args:
      metrics: task -> its metric, for tasks that are further columns.
    """
    shown = benchmarks.columns(columns)
    of_columns = (benchmarks.COLUMNS[c][0] for c, parts in shown.items() if not parts)
    wanted = dict.fromkeys([*metrics, *of_columns])
    chosen = {name: tasks[name] for name in wanted if name in tasks}
    if not chosen:
        raise UserError(
            f"--tasks has none of the tasks of {source}: {', '.join(wanted)}"
        )
    return chosen


def pretraining(
    row: str,
    arm: Arm,
    scale: str,
    *,
    seed: int = 0,
    keys: RowKeys = lambda row, base: {},
    size: str = "base",
    paper_mask_rate: bool = False,
) -> Arm:
    """The experiment of a row, with its overrides at a scale; see `sweep`.

    A pretraining to which `keys` set `train.init_from` or `objective.teacher` has the
    same seed.
    """
    experiment, own = arm
    sizes = getattr(user_code.module_at(experiment), "SIZES", ())
    if scale == "paper" and size in sizes:
        experiment, shape = f"{experiment}:{size}", {}
    else:
        default = flat_config(arm)
        shape = _scale_keys(SCALES[scale], default)
        if (rate := SCALES[scale].mask_rate) and not paper_mask_rate:
            own = own | _masked_at(rate, arm)
    base = flat_config((experiment, shape))
    chosen = shape | own | keys(row, base) | {"seed": seed}
    for key in (INIT_FROM, TEACHER):
        if origin := chosen.get(key):
            chosen[key] = origin[0], origin[1] | {"seed": seed}
    return experiment, chosen


def taught_by(arm: Arm, scale: str) -> dict[str, Any]:
    """Keys of a pretraining by distillation from another pretraining."""
    teacher = pretraining("", arm, scale)
    network = {
        key.removeprefix("model."): value
        for key, value in flat_config(teacher).items()
        if key.startswith("model.")
    }
    return {TEACHER: teacher, f"{TEACHER}_model": network}


def _scale_keys(scale: Scale, default: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a pretraining at a scale, for an arm with this config."""
    shape = {  # without keys that the network lacks, as an LSTM has no heads
        k: v
        for k, v in scale.shape.items()
        if k in default or not k.startswith("model.")
    }
    keys = shape | scale.pretraining
    rule = (default | keys)["optimizer.name"]
    if not OPTIMIZERS.part_class(rule, "optimizer.name").takes_scale_rate:
        keys = {k: v for k, v in keys.items() if k != RATE}
    elif default.get("model.norm_placement") == "post":
        keys |= scale.post_norm
    own = default.get("model.position") if scale.position else None
    if own and POSITIONS.part_class(own, "model.position").learns_positions:
        keys["model.position"] = scale.position
    return keys


def _masked_at(rate: float, arm: Arm) -> dict[str, Any]:
    """Keys for the mask rate of an arm that predicts masked tokens, also in a part.

    Rates that the arm sets are kept.
    """
    objective = _of_arm(arm).objective
    if objective.takes_mask_rate and "objective.rate" not in arm[1]:
        return {"objective.rate": rate}
    if not isinstance(objective, OfParts):
        return {}
    given, parts = flat_config(arm)["objective.parts"], {}
    for part, fields in given.items():
        takes_rate = objective.members[part].takes_mask_rate
        parts[part] = {"rate": rate, **fields} if takes_rate else fields
    return {} if parts == given else {"objective.parts": parts}


def like(reference: Arm, base: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that make a config equal to another one, except for objective and seed.

    Args:
      base: the flat config that the keys change.
    """
    return {
        key: value
        for key, value in flat_config(reference).items()
        if key != "seed" and not key.startswith("objective.")
        if key not in base or base[key] != value
    }


def tunings(
    start: Arm, task: Task, scale: str, more: Mapping[str, Any]
) -> Iterator[Arm]:
    """The fine-tunings of a pretraining on a task: seeds x learning rates.

    Rates are the scale's, unless the task or `more` has one. There are none if the
    task's objective cannot read the format of the pretraining.
    """
    own = {"data.vocabulary": start, INIT_FROM: start}
    own["data.mixture"] = {}  # --config.data.mixture is for pretraining
    own |= network_keys(start) | SCALES[scale].tuning
    if flat_config(start).get("model.norm_placement") == "post":
        own |= SCALES[scale].post_norm_tuning
    chosen = {**task.keys, **more}
    name = chosen.get("objective.name", "sequence_classification")
    own |= form_keys(start, name) | chosen
    fields = objective_class(name).__dataclass_fields__
    if own["objective.format"] not in fields["format"].metadata["values"]:
        return
    if "head" not in fields:
        own.pop("objective.head", None)
    repeats, first = REPEATS[scale], start[1]["seed"]
    rates = repeats.learning_rates
    if RATE in chosen:
        rates = (chosen[RATE],)
    for number in range(repeats.tuning_seeds):
        seed = first * repeats.tuning_seeds + number
        for rate in rates:
            yield EXPERIMENT, {**own, "seed": seed, RATE: rate}


def form_keys(start: Arm, name: str) -> dict[str, Any]:
    """Keys for the input format of a task's objective that suits a pretraining.

    Prefix LMs also use gpt's, since they score a text only from left to right.

    A decoder, if there is one, writes text. Otherwise one stack writes it after the
    input, as a prefix LM (Lewis et al. 2020, section 4.1), since the loss of layout
    "decoder" includes the input's tokens.
    """
    config = _of_arm(start)
    objective = config.objective.unwrapped
    base = objective_class(getattr(objective, "base_objective", objective.name))
    stacks = objective.needs(placeholder_vocab(config)).stacks
    if stacks == "encoder_decoder":
        format = "bart"
    elif objective.pattern == "causal" or [*objective.score_methods] == [FORWARD]:
        format = "gpt"
    else:
        format = base.task_format
    keys = {"objective.format": format}
    if objective_class(name).prompt:  # its output is text
        written = "encoder_decoder" if format == "bart" else "prefix"
        keys = {"objective.format": base.written_format, "objective.layout": written}
    return keys | (DISCRIMINATOR if stacks == "generator_discriminator" else {})


def flat_config(arm: Arm) -> dict[str, Any]:
    """Dotted key -> value of an experiment with its overrides, at seed 0.

    A key that it does not set has the value of --config.KEY. One whose value comes from
    another trial has the experiment's value, and train.init_layers is empty.
    """
    return _of_arm(arm).flat


def _of_arm(arm: Arm) -> Config:
    experiment, own = arm
    keys = with_shared(own) | {"train.init_layers": []}
    return _load(experiment, json.dumps({**keys, "seed": 0}))


@functools.cache
def _load(experiment: str, keys: str) -> Config:
    return load_config(experiment, json.loads(keys))


def network_keys(start: Arm) -> dict[str, Any]:
    """Keys that give a fine-tuning the network and the row length of a pretraining.

    Dropout is not among them.
    """
    trained, default = flat_config(start), _load(EXPERIMENT, "{}").flat
    keys = [key for key in trained if key.startswith("model.")] + ["data.length"]
    return {
        key: trained[key]
        for key in keys
        if key != "model.dropout"
        and (trained[key] != default.get(key) or is_shared(key))
    }
