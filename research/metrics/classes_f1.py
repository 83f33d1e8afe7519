"""F1 of classes (scikit-learn): that of the second of two, else the macro average.

The second class of two is the positive one, as in GLUE's MRPC and QQP. A class that is
neither predicted nor right anywhere counts 0.
"""

import dataclasses

from research import metrics
from research.metrics import Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("class",)
    values = (Value("f1"),)

    def measure(self, items, labels):
        from sklearn.metrics import f1_score

        predictions, golds = metrics.columns(items)
        average = {"average": "macro", "labels": list(labels)}
        if len(labels) == 2:
            average = {"average": "binary", "pos_label": labels[1]}
        return {"f1": float(f1_score(golds, predictions, zero_division=0, **average))}
