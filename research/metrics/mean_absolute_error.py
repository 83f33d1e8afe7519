"""The mean distance of numbers from the right ones."""

import dataclasses
import math

import numpy as np

from research import metrics
from research.metrics import LOWER, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("number",)
    values = (Value("mean_absolute_error", LOWER, most=math.inf, unit="label"),)

    def measure(self, items, labels):
        found, right = (np.array(each, float) for each in metrics.columns(items))
        return {"mean_absolute_error": float(np.mean(np.abs(found - right)))}
