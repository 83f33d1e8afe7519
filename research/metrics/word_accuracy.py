"""The fraction of the words of all texts whose tag is right."""

import dataclasses
from collections.abc import Sequence

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("tags",)
    values = (Value("word_accuracy"),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        pairs = [
            pair
            for item in items
            for pair in zip(item.prediction, item.gold, strict=True)
        ]
        return {"word_accuracy": sum(a == b for a, b in pairs) / len(pairs)}

    def note(self, items: Sequence[Item]) -> str:
        found = [p for item in items for p in item.details.get("probabilities", ())]
        if not (unread := found.count(None)):
            return ""
        return (
            f"{unread} of {len(found)} words lie beyond data.length (or have no token) "
            "and count as wrong; raise data.length"
        )
