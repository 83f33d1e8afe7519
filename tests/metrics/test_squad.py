"""Answers are scored as SQuAD's scripts score them."""

import pytest

from research.metrics import squad


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "f1"),
    [
        ("The Denver  Broncos!", ["Denver Broncos"], 1, 1),
        ("Carolina Panthers", ["Denver Broncos", "the Panthers"], 0, 2 / 3),
        ("an apple and an apple", ["apple"], 0, 2 * (1 / 3) / (1 / 3 + 1)),
        ("U.S.", ["US"], 1, 1),
        ("a.m.", ["am"], 1, 1),  # the point goes before the article would
        ("theatre", ["the atre"], 0, 0),
        ("1990–2000", ["19902000"], 0, 0),  # only ASCII punctuation is removed
        ("", ["x"], 0, 0),
    ],
)
def test_normalisation_and_f1(prediction, golds, exact, f1):
    assert squad.exact_match(prediction, golds) == exact
    for no_answers in (False, True):
        found = squad.f1(prediction, golds, no_answers=no_answers)
        assert found == pytest.approx(f1, abs=0)


def test_the_versions_differ_where_nothing_is_left():
    assert squad.f1("the", ["an"], no_answers=False) == 0
    assert squad.f1("the", ["an"], no_answers=True) == 1
    assert squad.answers_to_score(["the", "x"], no_answers=True) == ["x"]
    assert squad.answers_to_score(["the", "x"], no_answers=False) == ["the", "x"]
    assert squad.answers_to_score([], no_answers=True) == [""]
