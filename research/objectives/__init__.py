"""The objective protocol: it hides part of a text and scores the recovery of it."""

import dataclasses
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from research.batch import ArraySpec, Example, TextSpec, VocabInfo
from research.errors import UserError, unknown

if TYPE_CHECKING:  # it imports JAX, which commands that load no objective do not need
    from research.objectives.losses.cross_entropy import Term

FAMILIES = (
    "LM",
    "MLM",
    "PLM",
    "DAE",
    "contrastive",
    "sentence",
    "joint",
    "supervised",
)


class Objective(Protocol):
    """A frozen dataclass whose fields are its hyperparameters and config keys.

    Each module of this folder defines exactly one, a class named `Objective`. Legal
    values are declared with the fields (`research.fields`).

    Some objectives have more members than these:

    - `reads_separators`, True where the separator after a document is read and scored
      in place of an eos of its own; `appends_queries`, True where an input ends with a
      query for each scored slot (`inputs.packed_rows`).
    - `for_evaluation()`, where the carry of an evaluation is another one.
    - `predict(net, batch)`, which returns arrays [B, ...], and `predicts`, what they
      are: see `research.evaluation.predictions`.
    - `row_length(first_length, length)` [n]: the data.length that raw examples of
      `length` tokens need, of which `first_length` are in the first part. Then
      `corrupt` may be told any length that holds a batch's texts (data.length_buckets).
    - `prompt(texts, vocab)`: the rows that are read before the first new token of a
      text that it writes, see `inputs.prompt`.
    - `score_methods`: names of the ways to score a text -> what the score is
      (`corruption.scoring`), the default first; and
      `score_rows(example, scored, vocab, length, method)`: rows that hide nothing but
      what the scored tokens [B, R] of the texts need. Their loss is that of
      `for_scoring()`, if there is one, which is -log p without smoothing or tasks. An
      objective with parts has `scored_part(method)` in place of both, and in place of
      `prompt` has `writing_parts`, the parts that have it, by name.
    """

    family: str
    """One of FAMILIES."""

    pattern: str
    """"full", "causal" or "general": what holds for rank and reach of every batch."""

    supports_accumulation: bool
    """Whether micro-batches may be scored separately; False if examples interact."""

    min_length: int
    """The least data.length at which a row has text and something that is scored."""

    def text_spec(self, length: int) -> TextSpec:
        """The text that one example takes, for a network input of `length` tokens."""

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Specs of its batch's arrays (but `example`, which the pipeline adds)."""

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides part of the text: NumPy on whole batches, pure in each row.

        An empty row has segment 0 and weight 0 everywhere.

        Args:
          key: [B] uint64, a hash of (seed, epoch, example).

        Returns:
          The arrays of `batch_spec`, each with a leading B.
        """

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """The Flax module it trains, unbound; options: `research.networks.Options`."""

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, "Term"], Any]:
        """Named sums and weights, never means; and the recurrent carry, or ()."""


def for_evaluation(objective: Objective) -> Objective:
    """The objective that scores the batches of an evaluation: itself, or its own."""
    return getattr(objective, "for_evaluation", lambda: objective)()


def scored_part(objective: Objective, method: str) -> tuple[Objective, str]:
    """The objective whose `score_rows` and loss a method uses, and its name there.

    It is the objective itself, or one of its parts.
    """
    return getattr(objective, "scored_part", lambda own: (objective, own))(method)


def for_scoring(objective: Objective) -> Objective:
    """The objective whose loss is minus the score of a text: itself, or its own."""
    return getattr(objective, "for_scoring", lambda: objective)()


def names() -> list[str]:
    """All objectives: the modules of this folder, without its packages."""
    modules = pkgutil.iter_modules(__path__)
    return sorted(module.name for module in modules if not module.ispkg)


def objective_class(name: str) -> type:
    """The dataclass of the objective `name`.

    Raises:
      UserError: there is no objective of this name.
    """
    if name not in names():
        raise unknown("objective.name", name, names())
    return importlib.import_module(f"research.objectives.{name}").Objective


def make_objective(name: str, **fields: Any) -> Objective:
    """The objective `name` with the given fields, and defaults for the others.

    Raises:
      UserError: an unknown name or field, or a value that is not legal.
    """
    objective = objective_class(name)
    known = [field.name for field in dataclasses.fields(objective)]
    for field in fields:
        if field not in known:
            raise unknown(f"field of objective {name}", field, known)
    try:
        return objective(**fields)
    except (TypeError, ValueError) as error:
        raise UserError(f"objective {name}: {error}") from error


def config_objective(config: Any) -> Objective:
    """The objective of a config, on packed rows if data.packing is best_fit.

    Raises:
      UserError: as `make_objective`; or data.length is too small for it, its rows
        cannot be packed, or they cannot have the lengths of data.length_buckets.
    """
    objective, length = make_objective(**config.objective), config.data.length
    if config.data.packing == "best_fit":
        from research.objectives.inputs.packed_rows import PackedRows  # of few configs

        objective = PackedRows(objective)
    if length < objective.min_length:
        raise UserError(
            f"data.length is {length}, but objective {config.objective.name} needs at "
            f"least {objective.min_length} for its specials and something to score"
        )
    if config.data.packing == "best_fit":
        objective.batch_spec(length)  # refuses what cannot be packed
    if config.data.length_buckets:
        _check_length_buckets(config.data, objective, config.objective.name)
    return objective


def _check_length_buckets(data: Any, objective: Objective, name: str) -> None:
    lengths = [*data.length_buckets]
    if not hasattr(objective, "row_length"):
        raise UserError(
            f"data.length_buckets: rows of objective {name} have one length; set "
            "data.length_buckets=[]"
        )
    whole = all(type(length) is int for length in lengths)
    least, most = objective.min_length, data.length - 1
    inside = whole and all(least <= length <= most for length in lengths)
    if not inside or lengths != sorted({*lengths}):
        raise UserError(
            f"data.length_buckets is {lengths}; it has ascending whole numbers from "
            f"{least} to data.length - 1, {most}"
        )
    if data.task or data.reader != "native":
        raise UserError(
            "data.length_buckets needs a corpus that data.reader=native reads; set "
            "data.task= and data.reader=native, or data.length_buckets=[]"
        )
