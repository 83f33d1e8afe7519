"""How near a text's right answer is among all answers of a split."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import Item, Value
from research.metrics.retrieval import DEPTHS

DEEPEST = max(DEPTHS)


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    """recall_k is the fraction of texts whose answer is among the nearest k.

    mrr is the mean of 1 / rank, over all ranks; ndcg_10 that of 1 / log2(1 + rank),
    which is 0 beyond rank 10: each text has one right answer, of gain 1 (Järvelin and
    Kekäläinen 2002).
    """

    kinds = ("text_retrieval",)
    values = (
        *(Value(f"recall_{k}") for k in DEPTHS),
        Value("mrr", mean_of_scores=True),
        Value(f"ndcg_{DEEPEST}"),
    )

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        rank = np.array(metrics.columns(items)[0])[:, 0]
        gain = np.where(rank <= DEEPEST, 1 / np.log2(1 + rank), 0.0)
        recall = {f"recall_{k}": float((rank <= k).mean()) for k in DEPTHS}
        mrr, ndcg = float((1 / rank).mean()), float(gain.mean())
        return recall | {"mrr": mrr, f"ndcg_{DEEPEST}": ndcg}
