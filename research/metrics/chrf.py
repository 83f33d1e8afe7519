"""chrF (Popovic 2015) of all written texts together, and of one (sacreBLEU)."""

import dataclasses
from collections.abc import Sequence

from research import metrics
from research.metrics import Item, Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("text",)
    values = (Value("chrf", most=100.0),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        import sacrebleu

        predictions, golds = metrics.columns(items)
        return {"chrf": float(sacrebleu.corpus_chrf(predictions, [golds]).score)}


def of_one_text(prediction: str, gold: str) -> float:
    """chrF of one text, between 0 and 1."""
    import sacrebleu

    return sacrebleu.sentence_chrf(prediction, [gold]).score / 100
