"""Pearson's and Spearman's correlation of numbers with the right ones (SciPy)."""

import dataclasses
import warnings
from collections.abc import Sequence

from research import metrics
from research.metrics import Item, Value

UNDEFINED = "a side is constant, or there is one number alone"


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("number",)
    values = tuple(
        Value(name, least=-1.0, undefined=UNDEFINED, undefined_counts=0.0)  # as in GLUE
        for name in ("pearson", "spearman")
    )

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        if len(items) < 2:
            return {}
        from scipy import stats

        found, right = (list(map(float, each)) for each in metrics.columns(items))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.ConstantInputWarning)
            return {
                "pearson": float(stats.pearsonr(found, right).statistic),
                "spearman": float(stats.spearmanr(found, right).statistic),
            }  # nan where a side is constant
