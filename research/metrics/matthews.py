"""Matthews' correlation of classes (scikit-learn); 0 where a side is constant."""

import dataclasses
from collections.abc import Sequence

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("class",)
    values = (Value("matthews", least=-1.0),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        from sklearn.metrics import matthews_corrcoef

        predictions, golds = metrics.columns(items)
        return {"matthews": float(matthews_corrcoef(golds, predictions))}
