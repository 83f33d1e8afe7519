"""Precision, recall and F1 of each label, and the confusion of labels."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from research.metrics import Item
from research.predictions import prediction_kind


class LabelScore(NamedTuple):
    """How well one label is predicted; a fraction without cases is 0."""

    label: str
    precision: float
    recall: float
    f1: float
    right: int
    predicted: int
    gold: int


def label_scores(
    items: Sequence[Item], kind: str, labels: Sequence[str]
) -> list[LabelScore]:
    """The scores of each label that is predicted or gold, sorted by name.

    For tags of a scheme a label is a chunk type, and a chunk is right only if its words
    are, too. Items without gold are left out.

    Args:
      kind: of predictions; a kind without labels has no scores.
      labels: all labels of the training text.
    """
    part = prediction_kind(kind)
    right: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    for item in items:
        pair = part.answers(item, labels) if item.gold is not None else None
        if pair is None:
            continue
        ours, theirs = (Counter(answers) for answers in pair)
        for counted, answers in (
            (right, ours & theirs),
            (predicted, ours),
            (gold, theirs),
        ):
            for (label, _), count in answers.items():
                counted[label] += count
    return [
        _score(label, right[label], predicted[label], gold[label])
        for label in sorted(predicted | gold)
    ]


def _score(label: str, right: int, predicted: int, gold: int) -> LabelScore:
    precision, recall = right / max(predicted, 1), right / max(gold, 1)
    f1 = 2 * right / max(predicted + gold, 1)
    return LabelScore(label, precision, recall, f1, right, predicted, gold)


def confusion(items: Sequence[Item], kind: str) -> dict[str, dict[str, int]]:
    """Gold label -> predicted label -> number of items, for single-label kinds."""
    if not kind or not prediction_kind(kind).is_one_label:
        return {}
    found: dict[str, Counter[str]] = {}
    for item in items:
        if item.gold is not None:
            found.setdefault(item.gold, Counter())[item.prediction] += 1
    return {gold: dict(sorted(row.items())) for gold, row in sorted(found.items())}


def report_lines(
    scores: Sequence[LabelScore], confused: dict[str, dict[str, int]]
) -> list[str]:
    """A table of the labels, then the confusions of each class."""
    if not scores:
        return []
    width = max(5, *(len(score.label) for score in scores))
    head = f"{'label':{width}}  precision  recall      f1  predicted    gold"
    lines = [head]
    lines += [
        f"{score.label:{width}}  {score.precision:9.4f}  {score.recall:6.4f}  "
        f"{score.f1:6.4f}  {score.predicted:9}  {score.gold:6}"
        for score in scores
    ]
    for gold, row in confused.items():
        wrong = {name: count for name, count in row.items() if name != gold}
        if wrong:
            order = sorted(wrong, key=lambda name: -wrong[name])
            taken = ", ".join(f"{name} {wrong[name]}" for name in order[:5])
            lines.append(f"{gold} taken for: {taken}")
    return lines


def as_json(
    scores: Sequence[LabelScore], confused: dict[str, dict[str, int]]
) -> dict[str, Any]:
    """The content of metrics.json: `labels`, and for classes `confusion`."""
    content: dict[str, Any] = {
        "labels": {score.label: score._asdict() for score in scores}
    }
    return content | ({"confusion": confused} if confused else {})
