"""F1 of classes (scikit-learn): that of the second of two, else the macro average.

The second class of two is the positive one, as in GLUE's MRPC and QQP. A data set of
TensorFlow Datasets has an order of its own; labels of files are sorted, but a negated
one, such as not_duplicate, comes first (`research.data.source.labels.class_order`). A
class that is neither predicted nor right anywhere counts 0, as does one that is right
somewhere and that the training text lacks.
"""

import dataclasses
from collections.abc import Sequence

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("class",)
    values = (Value("f1"),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        from sklearn.metrics import f1_score

        predictions, golds = metrics.columns(items)
        averaged = metrics.with_golds(labels, golds)
        if len(labels) == 2:
            averaged = [labels[1]]
        options = {"average": "macro", "labels": averaged, "zero_division": 0}
        return {"f1": float(f1_score(golds, predictions, **options))}
