"""How often what belongs to a picture or a caption is among the nearest k."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import Item, Value

SIDES = ("image_to_text", "text_to_image")
DEPTHS = (1, 5, 10)


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    """image_to_text_5 is R@5 of pictures: a caption of it is among the nearest five."""

    kinds = ("retrieval",)
    values = tuple(Value(f"{side}_{k}") for side, k in itertools.product(SIDES, DEPTHS))

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        ranks = np.array(metrics.columns(items)[0])
        return {
            f"{side}_{k}": float((ranks[:, n] <= k).mean())
            for n, side in enumerate(SIDES)
            for k in DEPTHS
        }
