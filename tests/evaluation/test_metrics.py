"""Metrics of libraries, on cases whose values are known."""

import math

import pytest

from research.evaluation import metrics


def test_two_classes_have_the_f1_of_the_second():
    found, right = list("1100"), list("1010")
    scores = metrics.of_classes(found, right, ("0", "1"))
    assert scores == {"accuracy": 0.5, "f1": 0.5, "matthews": 0.0}
    scores = metrics.of_classes(list("1111"), list("1110"), ("0", "1"))
    assert scores["f1"] == pytest.approx(6 / 7) and scores["matthews"] == 0
    scores = metrics.of_classes(list("abc"), list("abb"), ("a", "b", "c"))
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_correlations_of_constants_are_left_out():
    assert set(metrics.of_numbers([1, 1, 1], [1, 2, 3])) == {"mean_squared_error"}
    scores = metrics.of_numbers([1, 2, 9], [1, 2, 3])
    assert scores["spearman"] == pytest.approx(1) and scores["pearson"] < 1


def test_chunks_are_counted_as_conlleval_does():
    # An I- after O begins a chunk; a chunk is right if type and both ends are.
    golds = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "I-LOC"]]
    found = [["I-PER", "I-PER", "O", "B-PER"], ["O", "B-LOC"]]
    scores = metrics.of_tags(found, golds)
    assert scores["precision"] == scores["recall"] == pytest.approx(2 / 3)
    assert scores["word_accuracy"] == pytest.approx(3 / 6)
    assert set(metrics.of_tags([["NOUN"]], [["VERB"]])) == {"word_accuracy"}


def test_sets_of_labels():
    scores = metrics.of_sets([{"a"}, {"a", "b"}], [{"a"}, {"b"}], ["a", "b"])
    assert scores["exact"] == 0.5
    assert scores["f1_micro"] == pytest.approx(2 * 2 / (3 + 2))


def test_texts_have_the_scores_of_the_libraries():
    found = ["the cat sat on the mat", "a dog", ""]
    right = ["the cat sat on the mat", "the dogs ran", "x"]
    scores = metrics.of_texts(found, right)
    assert scores["exact_match"] == pytest.approx(1 / 3)
    # "dog" and "dogs" have one stem; of the second text 1 of 2 and of 3 words, so 2/5.
    assert scores["rouge1"] == pytest.approx((1 + 2 / 5) / 3)
    assert scores["rouge2"] == pytest.approx(1 / 3)
    # Of 8 words 7 are right, of 6 pairs 5, 4 of 4 triples, 3 of 3; 8 words for 10.
    precision = (6 / 8 * 5 / 6 * 4 / 4 * 3 / 3) ** 0.25
    assert scores["bleu"] == pytest.approx(100 * precision * math.exp(1 - 10 / 8))
    assert metrics.chrf("abc", "abc") == 1 and metrics.chrf("abc", "xyz") == 0


def test_all_metrics_but_errors_are_named_where_higher_is_better():
    found = {
        "class": metrics.of_classes(["a", "b"], ["a", "a"], ["a", "b"]),
        "set": metrics.of_sets([{"a"}], [{"a"}], ["a", "b"]),
        "number": metrics.of_numbers([1, 2, 4], [1, 2, 3]),
        "tags": metrics.of_tags([["B-x"]], [["B-x"]]),
        "text": metrics.of_texts(["a"], ["a"]),
    }
    for kind, names in found.items():
        known = {*metrics.HIGHER_IS_BETTER[kind]}
        assert {*names} - {"mean_squared_error"} == known
