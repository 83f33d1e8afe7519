"""The loss of the objective: the sum of the means of its terms that have a gradient."""

import dataclasses
import math

from research import metrics
from research.metrics import LOWER, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ()
    values = (Value("loss", LOWER, -math.inf, math.inf, "nats"),)
