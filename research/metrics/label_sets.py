"""F1 of sets of labels, micro and macro, and the fraction of right ones (scikit-learn).

A label that is neither predicted nor right anywhere counts 0 in the macro average.
"""

import dataclasses

import numpy as np

from research import metrics
from research.metrics import Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("set",)
    values = (Value("f1_micro"), Value("f1_macro"), Value("exact"))

    def measure(self, items, labels):
        from sklearn.metrics import accuracy_score, f1_score

        found, right = (
            np.array([[label in each for label in labels] for each in column])
            for column in metrics.columns(items)
        )
        scores = {
            f"f1_{average}": float(
                f1_score(right, found, average=average, zero_division=0)
            )
            for average in ("micro", "macro")
        }
        return scores | {"exact": float(accuracy_score(right, found))}
