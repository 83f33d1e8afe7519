"""Comparisons of arms with a baseline: differences, verdicts, the seeds they need."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from research.evaluation import power
from research.evaluation.statistics import (
    MIN_SEEDS,
    Estimate,
    estimate,
    holm,
    paired_test,
)

LEVEL = 0.05
"""The family-wise error of the verdicts of a table."""

TOO_FEW, NOT_DECIDED = "too few seeds", "not decided"

Key = TypeVar("Key", bound=Hashable)


class Comparison(NamedTuple):
    """A difference from the baseline, as one of a family of comparisons."""

    difference: Estimate  # over the shared seeds
    p: float  # of the paired test; nan for too few seeds
    adjusted_p: float  # Holm's, over the family
    seeds_needed: int | None = None  # if not decided; None: not known, or too many

    def verdict(self, direction: float = 0.0) -> str:
        """The verdict in one or two words.

        Args:
          direction: the sign of a paper's difference; 0: no paper reports one.
        """
        if self.difference.count < MIN_SEEDS:
            return TOO_FEW
        if not self.adjusted_p <= LEVEL:
            return NOT_DECIDED
        if direction == 0:
            return "higher" if self.difference.mean > 0 else "lower"
        return "holds" if self.difference.mean * direction > 0 else "reversed"


def compare(
    family: Mapping[Key, tuple[Sequence[Any], Sequence[Any]]],
) -> dict[Key, Comparison]:
    """The comparisons of a family, with their p-values corrected together.

    Two claims about the same scores are one hypothesis, which counts once.

    Args:
      family: key -> scores of an arm and of its baseline, both [S] or [S, I], of the
        same seeds and items in the same order.
    """
    hypothesis = {
        key: frozenset(np.asarray(scores, np.float64).tobytes() for scores in pair)
        for key, pair in family.items()
    }
    tested = {hypothesis[key]: paired_test(*pair) for key, pair in family.items()}
    corrected = dict(zip(tested, map(float, holm([*tested.values()])), strict=True))
    p_values, adjusted = (
        {key: values[each] for key, each in hypothesis.items()}
        for values in (tested, corrected)
    )
    num_open = sum(p > LEVEL for p in corrected.values())
    comparisons = {}
    for key, (scores, others) in family.items():
        gap = np.subtract(scores, others, dtype=np.float64)
        needed = None
        if adjusted[key] > LEVEL:  # at the level of Holm's next step
            needed = power.seeds_needed(
                float(gap.mean()),
                power.estimate_components(gap),
                num_items=gap.shape[1] if gap.ndim == 2 else 1,
                level=LEVEL / num_open,
            )
        comparisons[key] = Comparison(
            estimate(gap), p_values[key], adjusted[key], needed
        )
    return comparisons
