"""Accuracy: the fraction of examples whose prediction is right.

The accuracy of an objective's term is that of predicted tokens.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("class",)
    values = (Value("accuracy", mean_of_scores=True),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        return {"accuracy": float(np.mean([item.score for item in items]))}
