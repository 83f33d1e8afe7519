"""ROUGE's F (Lin 2004) of words, pairs of words and common subsequences (rouge-score).

The mean over the texts. Where the right texts are written in English letters, words are
those of rouge-score, stemmed; else those of any script (`words_of`), not stemmed.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import Item, Value
from research.metrics.shared.scripts import count_letters, words_of

MAX_OTHERS = 1 / 500
"""The fraction of other letters that English text may have, as in names."""
NAMES = ("rouge1", "rouge2", "rougeL")


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("text",)
    values = tuple(Value(name, undefined="no right text has a word") for name in NAMES)

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.tokenizers import DefaultTokenizer

        is_english = _is_english(items)
        tokenizer = DefaultTokenizer(use_stemmer=True) if is_english else _AnyScript()
        if not any(tokenizer.tokenize(item.gold) for item in items):
            return {}
        scorer = RougeScorer(list(NAMES), tokenizer=tokenizer)
        scores = [scorer.score(item.gold, item.prediction) for item in items]
        return {
            name: float(np.mean([each[name].fmeasure for each in scores]))
            for name in NAMES
        }

    def note(self, items: Sequence[Item]) -> str:
        if _is_english(items):
            return ""
        return (
            "words are of any script and not stemmed, those of rouge-score are of "
            "English letters"
        )


def _is_english(items: Sequence[Item]) -> bool:
    letters = count_letters(item.gold for item in items)
    return letters.not_english <= MAX_OTHERS * letters.all


class _AnyScript:
    """A tokenizer of rouge-score."""

    def tokenize(self, text: str) -> list[str]:
        return words_of(text)
