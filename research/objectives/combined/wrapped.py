"""An objective that wraps another one, its base objective."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from research import objectives
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo
from research.contract.errors import UserError
from research.contract.fields import choice
from research.data.rows import TextSpec
from research.data.tokenize.vocabulary import Vocabulary
from research.networks import BoundNetwork
from research.objectives.combined import composite
from research.objectives.layout.row_notes import RowNotes
from research.objectives.losses.cross_entropy import Term


def can_be_wrapped(name: str) -> bool:
    """Whether an objective may be the base of another one."""
    cls = objectives.objective_class(name)
    return not issubclass(cls, composite.Composite) or cls.can_be_wrapped


@dataclass(frozen=True)
class Wrapped(composite.Composite):
    """Hides and scores text as the base objective does, unless a subclass differs."""

    base_objective: str = choice("mlm", objectives.names())
    base: composite.Fields = ()  # fields of `base_objective` -> values; other fields
    # have their defaults

    def __post_init__(self) -> None:
        super().__post_init__()
        if not can_be_wrapped(self.base_objective):
            raise ValueError(
                f"base_objective is {self.base_objective}, which combines others: name "
                "one of its parts"
            )
        object.__setattr__(self, "base", composite.parse_fields(self.base, "base"))
        self._base  # noqa: B018 (raises what is wrong with its fields)

    @functools.cached_property
    def members(self) -> dict[str, objectives.Objective]:
        try:
            base = objectives.make_objective(self.base_objective, **dict(self.base))
        except UserError as error:
            raise UserError(f"objective.base: {error}") from error
        return {"": base}

    @property
    def _base(self) -> objectives.Objective:
        return self.members[""]

    @property
    def unwrapped(self) -> objectives.Objective:
        return self._base

    @property
    def family(self) -> str:
        return self._base.family

    @property
    def predicts(self) -> str:
        return self._base.predicts

    @property
    def row_length(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
        return self._base.row_length

    def for_evaluation(self) -> "Wrapped":
        """The objective with its base objective as in evaluations."""
        fields = composite.evaluated_fields(self.base, self._base)
        return self.with_fields(base=fields)

    def evaluation_length(self, length: int) -> int:
        return self._base.evaluation_length(length)

    def text_spec(self, length: int) -> TextSpec:
        return self._base.text_spec(length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return self._base.batch_spec(length)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        return self._base.corrupt(example, key, vocab, length)

    def notes(self, row: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> RowNotes:
        return self._base.notes(row, vocabulary)

    def word_table(self, params: Mapping[str, Any]) -> Any:
        return self._base.word_table(params)

    def predictions(self, net: BoundNetwork, batch: Batch) -> dict[str, Any]:
        return self._base.predictions(net, batch)

    def read_constants(
        self, group: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> dict[str, Any]:
        return self._base.read_constants(group, constants)

    def loss(
        self, net: BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        return self._base.loss(net, batch, key)
