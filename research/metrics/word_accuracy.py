"""The fraction of the words of all texts whose tag is right."""

import dataclasses

from research import metrics
from research.metrics import Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("tags",)
    values = (Value("word_accuracy"),)

    def measure(self, items, labels):
        pairs = [
            pair
            for item in items
            for pair in zip(item.prediction, item.gold, strict=True)
        ]
        return {"word_accuracy": sum(a == b for a, b in pairs) / len(pairs)}
