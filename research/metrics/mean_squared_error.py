"""The mean of the squared differences between numbers and the right ones."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import LOWER, Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("number",)
    values = (Value("mean_squared_error", LOWER, most=math.inf, unit="label squared"),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        found, right = (np.array(each, float) for each in metrics.columns(items))
        return {"mean_squared_error": float(np.mean((found - right) ** 2))}
