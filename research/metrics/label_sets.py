"""F1 of sets of labels, micro and macro, and the fraction of right ones (scikit-learn).

A label that is neither predicted nor right anywhere counts 0 in the macro average, as
does one that is right somewhere and that the training text lacks.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("set",)
    values = (Value("f1_micro"), Value("f1_macro"), Value("exact"))

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        from sklearn.metrics import accuracy_score, f1_score

        columns = metrics.columns(items)
        names = metrics.with_golds(
            labels, [name for gold in columns[1] for name in gold]
        )
        found, right = (
            np.array([[name in each for name in names] for each in column])
            for column in columns
        )
        # a single column would be two classes, True and False
        classes = {"labels": [True]} if len(names) == 1 else {}
        scores = {
            f"f1_{average}": float(
                f1_score(right, found, average=average, zero_division=0, **classes)
            )
            for average in ("micro", "macro")
        }
        return scores | {"exact": float(accuracy_score(right, found))}
