"""The contract: an objective hides part of a text and scores its recovery."""

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
    """In fact a frozen dataclass; its fields are its hyperparameters and config keys.

    A module of this folder defines exactly one, as the class named `Objective`.
    """

    family: str
    """One of FAMILIES."""

    pattern: str
    """"full", "causal" or "general": a promise about rank and reach."""

    supports_accumulation: bool
    """Whether a batch may be scored in parts; False where examples are compared."""

    def text_spec(self, length: int) -> TextSpec:
        """What one example takes from the text, for a network input of `length`."""

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """The batch it makes, by name (without `example`, which the pipeline adds)."""

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides: NumPy on whole batches, row-wise pure in (example, key).

        key: [B] uint64, a hash of (seed, epoch, example). An empty row has segment 0
        and weight 0 everywhere.
        """

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """The unbound network it needs; options: `research.models.Options`."""

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, "Term"], Any]:
        """Scores: named sums and weights, never means, and the carry (else ())."""


def names() -> list[str]:
    """Every objective there is: the modules of this folder, none of its folders."""
    found = pkgutil.iter_modules(__path__)
    return sorted(module.name for module in found if not module.ispkg)


def objective_class(name: str) -> type:
    """The dataclass of an objective.

    Raises:
      UserError: there is no objective of this name.
    """
    if name not in names():
        raise unknown("objective.name", name, names())
    return importlib.import_module(f"research.objectives.{name}").Objective


def make_objective(name: str, **fields: Any) -> Objective:
    """The objective `name` with the given fields, its defaults elsewhere.

    Raises:
      UserError: an unknown name or field, or a value the objective refuses.
    """
    objective = objective_class(name)
    known = [field.name for field in dataclasses.fields(objective)]
    for field in fields:
        if field not in known:
            raise unknown(f"key of objective {name}: objective.", field, known)
    try:
        return objective(**fields)
    except (TypeError, ValueError) as error:
        raise UserError(f"objective {name}: {error}") from error
