"""Matthews' correlation of classes, and of the tags of words (scikit-learn).

It is 0 if the predictions or the labels are constant: a tagger that gives every word
the same tag has 0, however often that tag is right. Words that the model did not read
are left out.
"""

import dataclasses
from collections.abc import Sequence

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("class",)
    values = (Value("matthews", least=-1.0, constant=0.0),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        from sklearn.metrics import matthews_corrcoef

        predictions, golds = metrics.columns(items)
        if not isinstance(golds[0], str):  # the tags of a text
            words = [word for item in items for word in _read_words(item)]
            if not words:
                return {"matthews": 0.0}
            predictions, golds = map(list, zip(*words, strict=True))
        return {"matthews": float(matthews_corrcoef(golds, predictions))}


def _read_words(item: Item) -> list[tuple[str, str]]:
    """Predicted and right tag of each word within data.length."""
    read = item.details.get("probabilities", item.prediction)
    words = zip(item.prediction, item.gold, read, strict=True)
    return [(ours, theirs) for ours, theirs, known in words if known is not None]
