"""Exact match and F1 of answers as SQuAD's scripts count them (evaluate-v1.1, v2.0)."""

import collections
import dataclasses
import re
import string
from collections.abc import Sequence

import numpy as np

from research import metrics
from research.metrics import Item, Value

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    """The score of an item is its F1."""

    kinds = ("span",)
    values = (Value("exact_match"), Value("f1", mean_of_scores=True))

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        matches = [exact_match(item.prediction, item.gold) for item in items]
        f1 = float(np.mean([item.score for item in items]))
        return {"exact_match": float(np.mean(matches)), "f1": f1}


def normalize(answer: str) -> str:
    """Lower case, without ASCII punctuation, articles and runs of white space."""
    text = _ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION))
    return " ".join(text.split())


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1 if the prediction is one of the golds, both normalised; else 0."""
    return float(normalize(prediction) in map(normalize, golds))


def f1(prediction: str, golds: Sequence[str], *, no_answers: bool = False) -> float:
    """The largest F1 of the words of the prediction and of a gold.

    Args:
      no_answers: as in version 2, where a side without words scores 1 if the other has
        none either; in version 1.1 it scores 0.
    """
    return max(_f1(prediction, gold, no_answers) for gold in golds)


def _f1(prediction: str, gold: str, no_answers: bool) -> float:
    found, right = normalize(prediction).split(), normalize(gold).split()
    if no_answers and not (found and right):
        return float(found == right)
    common = collections.Counter(found) & collections.Counter(right)
    same = sum(common.values())
    if not same:
        return 0.0
    precision, recall = same / len(found), same / len(right)
    return 2 * precision * recall / (precision + recall)


def answers_to_score(golds: Sequence[str], *, no_answers: bool) -> list[str]:
    """The golds that a prediction is compared with; [""] if there is no answer.

    Version 2 leaves out golds of which normalisation leaves nothing.
    """
    kept = [gold for gold in golds if not no_answers or normalize(gold)]
    return kept or [""]
