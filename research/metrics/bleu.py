"""BLEU (Papineni et al. 2002) of all written texts together (sacreBLEU).

Its default tokenizer "13a" is for text with spaces between words.
"""

import dataclasses

from research import metrics
from research.metrics import Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("text",)
    values = (Value("bleu", most=100.0),)

    def measure(self, items, labels):
        import sacrebleu

        predictions, golds = metrics.columns(items)
        return {"bleu": float(sacrebleu.corpus_bleu(predictions, [golds]).score)}
