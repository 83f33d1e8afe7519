"""The fraction of written texts that are the right one, letter by letter."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("text",)
    values = (Value("exact_match"),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        right = [item.prediction == item.gold for item in items]
        return {"exact_match": float(np.mean(right))}
