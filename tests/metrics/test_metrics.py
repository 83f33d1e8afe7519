"""Metrics of libraries, on cases whose values are known."""

import math

import pytest

from research.metrics import Item, chrf, measure


def items(predictions, golds):
    """Items of which no metric reads the score."""
    pairs = enumerate(zip(predictions, golds, strict=True))
    return [Item(str(number), *pair, None) for number, pair in pairs]


def of_classes(predictions, golds, labels):
    pairs = zip(predictions, golds, strict=True)
    found = [Item("", *pair, float(pair[0] == pair[1])) for pair in pairs]
    return measure("class", found, labels)


def test_two_classes_have_the_f1_of_the_second():
    scores = of_classes("1100", "1010", ("0", "1"))
    assert scores == {"accuracy": 0.5, "f1": 0.5, "matthews": 0.0}
    scores = of_classes("1111", "1110", ("0", "1"))
    assert scores["f1"] == pytest.approx(6 / 7) and scores["matthews"] == 0
    scores = of_classes("abc", "abb", ("a", "b", "c"))
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_a_class_that_training_lacks_is_never_right():
    scores = of_classes("1100", "101c", ("0", "1"))
    assert scores["accuracy"] == 0.25 and scores["f1"] == 0.5
    scores = of_classes("abc", "abd", ("a", "b", "c"))
    assert scores["f1"] == pytest.approx((1 + 1 + 0 + 0) / 4)
    found = items([["a"], ["b"]], [["a", "new"], ["b"]])
    scores = measure("set", found, ["a", "b"])
    assert scores["exact"] == 0.5 and scores["f1_macro"] == pytest.approx(2 / 3)


def test_correlations_of_constants_are_left_out():
    errors = {"mean_squared_error": 5 / 3, "mean_absolute_error": 1}
    assert measure("number", items([1, 1, 1], [1, 2, 3]), ()) == pytest.approx(errors)
    scores = measure("number", items([1, 2, 9], [1, 2, 3]), ())
    assert scores["spearman"] == pytest.approx(1) and scores["pearson"] < 1


def test_chunks_are_counted_as_conlleval_does():
    # An I- after O begins a chunk; a chunk is right if type and both ends are.
    golds = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "I-LOC"]]
    found = [["I-PER", "I-PER", "O", "B-PER"], ["O", "B-LOC"]]
    scores = measure("tags", items(found, golds), ())
    assert scores["precision"] == scores["recall"] == pytest.approx(2 / 3)
    assert scores["word_accuracy"] == pytest.approx(3 / 6)
    assert measure("tags", items([["NOUN"]], [["VERB"]]), ()) == {"word_accuracy": 0}


def test_sets_of_one_class_are_scored_by_that_class():
    """And not by the rows that lack it, which are none of a class of their own."""
    found = items([[], [], [], ["a"]], [["a"], [], [], []])
    scores = measure("set", found, ["a"])
    assert scores == {"f1_micro": 0, "f1_macro": 0, "exact": 0.5}


def test_sets_of_labels():
    found = items([["a"], ["a", "b"]], [["a"], ["b"]])
    scores = measure("set", found, ["a", "b"])
    assert scores["exact"] == 0.5
    assert scores["f1_micro"] == pytest.approx(2 * 2 / (3 + 2))


def test_texts_have_the_scores_of_the_libraries():
    found = ["the cat sat on the mat", "a dog", ""]
    right = ["the cat sat on the mat", "the dogs ran", "x"]
    scores = measure("text", items(found, right), ())
    assert scores["exact_match"] == pytest.approx(1 / 3)
    # "dog" and "dogs" have one stem; of the second text 1 of 2 and of 3 words, so 2/5.
    assert scores["rouge1"] == pytest.approx((1 + 2 / 5) / 3)
    assert scores["rouge2"] == pytest.approx(1 / 3)
    # Of 8 words 7 are right, of 6 pairs 5, 4 of 4 triples, 3 of 3; 8 words for 10.
    precision = (6 / 8 * 5 / 6 * 4 / 4 * 3 / 3) ** 0.25
    assert scores["bleu"] == pytest.approx(100 * precision * math.exp(1 - 10 / 8))
    assert chrf.of_one_text("abc", "abc") == 1 and chrf.of_one_text("abc", "xyz") == 0
