"""Precision, recall and F1 of each label, beside scikit-learn's and seqeval's."""

import numpy as np
import pytest
import sklearn.metrics
from seqeval.metrics.sequence_labeling import (
    precision_recall_fscore_support as of_chunks,
)

from research.evaluation.label_report import confusion, label_scores, report_lines
from research.metrics import Item, notes

DRAW = np.random.default_rng(0)
CLASSES = ("a", "b", "c")


def make(predictions, golds):
    pairs = zip(predictions, golds, strict=True)
    return [Item(str(n), *pair, 0.0) for n, pair in enumerate(pairs)]


def check(items, kind, labels, expected):
    scores = label_scores(items, kind, labels)
    found = [(s.precision, s.recall, s.f1, s.gold) for s in scores]
    np.testing.assert_allclose(found, np.transpose(expected), atol=1e-9)
    return scores


def test_classes():
    ours, theirs = (DRAW.choice(CLASSES, 60).tolist() for _ in "ab")
    items = make(ours, theirs)
    expected = sklearn.metrics.precision_recall_fscore_support(theirs, ours)
    scores = check(items, "class", CLASSES, expected)
    table = sklearn.metrics.confusion_matrix(theirs, ours)
    found = confusion(items, "class")
    assert [[found[g].get(p, 0) for p in CLASSES] for g in CLASSES] == table.tolist()
    lines = report_lines(scores, found)
    assert lines[0].split()[0] == "label" and "a taken for: " in lines[4]


def test_sets():
    picks = DRAW.random((2, 40, 3)) < 0.5
    ours, theirs = (
        [[c for c, yes in zip(CLASSES, row, strict=True) if yes] for row in side]
        for side in picks
    )
    expected = sklearn.metrics.precision_recall_fscore_support(picks[1], picks[0])
    check(make(ours, theirs), "set", CLASSES, expected)


def test_tags_of_a_scheme_count_chunks_and_others_words():
    tags = ("O", "B-X", "I-X", "B-Y", "I-Y")
    ours, theirs = (DRAW.choice(tags, (30, 8)).tolist() for _ in "ab")
    check(make(ours, theirs), "tags", tags, of_chunks(theirs, ours, zero_division=0))
    words = [[t[-1] for t in row] for row in ours], [[t[-1] for t in r] for r in theirs]
    flat = [[tag for row in side for tag in row] for side in words]
    expected = sklearn.metrics.precision_recall_fscore_support(*flat[::-1])
    check(make(*words), "tags", ("O", "X", "Y"), expected)
    unread = Item(
        "1", ["X", "O"], ["X", "Y"], 0.5, details={"probabilities": [1, None]}
    )
    scores = label_scores([unread], "tags", ("X", "Y"))
    assert [(each.label, each.predicted) for each in scores] == [("X", 1), ("Y", 0)]
    assert notes("tags", [unread])["word_accuracy"].startswith(
        "1 of 2 words lie beyond"
    )


@pytest.mark.parametrize("kind", ["number", "span"])
def test_a_kind_without_labels_has_no_report(kind):
    assert label_scores(make([1.0], [2.0]), kind, ()) == []
    assert report_lines([], {}) == []
