"""Precision, recall and F1 of chunks, in all texts together (seqeval's default mode).

Chunks are counted as conlleval counts them. Without a right (or predicted) one a
fraction of these is 0.
"""

import dataclasses

from research import metrics
from research.metrics import Value

PREFIXES = ("B-", "I-", "E-", "S-")
UNDEFINED = f"no right tag begins with {', '.join(PREFIXES)}"


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("tags",)
    values = tuple(
        Value(name, undefined=UNDEFINED) for name in ("precision", "recall", "f1")
    )

    def measure(self, items, labels):
        predictions, golds = (list(map(list, each)) for each in metrics.columns(items))
        if not any(tag.startswith(PREFIXES) for tags in golds for tag in tags):
            return {}
        import seqeval.metrics

        names = [value.name for value in self.values]
        functions = [getattr(seqeval.metrics, f"{name}_score") for name in names]
        scores = [each(golds, predictions, zero_division=0) for each in functions]
        return dict(zip(names, map(float, scores), strict=True))
