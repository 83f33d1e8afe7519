"""Ranks of the entities that complete a triple (Bordes et al. 2013, section 4.2)."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import LOWER, Item, Value

HITS = (1, 3, 10)


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    """mrr is the mean of 1 / rank over both ends of all triples.

    hits_k is the fraction of ranks that are at most k.
    """

    kinds = ("ranks",)
    values = (
        Value("mrr", mean_of_scores=True),
        *(Value(f"hits_{k}") for k in HITS),
        Value("mean_rank", better=LOWER, least=1.0, most=math.inf),
    )

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        ranks = np.array(metrics.columns(items)[0])
        hits = {f"hits_{k}": float((ranks <= k).mean()) for k in HITS}
        return {
            "mrr": float((1 / ranks).mean()),
            "mean_rank": float(ranks.mean()),
        } | hits
