"""BLEU (Papineni et al. 2002) of all written texts together (sacreBLEU).

Its tokenizer is the default, 13a, for text with spaces between words. Where a tenth of
the right texts' letters is of scripts without, it is `zh` if they are ideographs, else
`char`.
"""

import dataclasses
from collections.abc import Sequence

from research import metrics
from research.metrics import Item, Value
from research.metrics.shared.scripts import count_letters

DEFAULT = "13a"
MIN_SPACELESS, MIN_HAN = 0.1, 0.9
"""Fractions of letters without spaces between words, and of ideographs among these."""


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("text",)
    values = (Value("bleu", most=100.0),)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        import sacrebleu

        predictions, golds = metrics.columns(items)
        tokenize = _tokenizer(golds)
        score = sacrebleu.corpus_bleu(predictions, [golds], tokenize=tokenize).score
        return {"bleu": float(score)}

    def note(self, items: Sequence[Item]) -> str:
        tokenizer = _tokenizer([item.gold for item in items])
        return "" if tokenizer == DEFAULT else f"sacreBLEU's tokenizer {tokenizer}"


def _tokenizer(golds: Sequence[str]) -> str:
    """The name of sacreBLEU's tokenizer for the script of the right texts."""
    letters = count_letters(golds)
    if letters.spaceless <= MIN_SPACELESS * letters.all:
        return DEFAULT
    return "zh" if letters.han > MIN_HAN * letters.spaceless else "char"
