"""Comparisons: verdicts are corrected over their family and follow the sign."""

import math

import numpy as np
import pytest

from research.evaluation.comparison import compare
from research.evaluation.statistics import estimate, holm, paired_test

BASELINE = (60.0, 62.0, 61.0)
FAMILY = {
    "far": ((80.0, 82.1, 81.0), BASELINE),
    "below": ((50.1, 52.0, 51.0), BASELINE),
    "near": ((62.0, 62.5, 61.6), BASELINE),
    "once": ((70.0,), (60.0,)),
}


def test_verdicts_are_of_the_sign_and_of_the_corrected_p_value():
    found = compare(FAMILY)
    p = {key: paired_test(*pair) for key, pair in FAMILY.items()}
    adjusted = holm(list(p.values()))
    for (key, pair), expected in zip(FAMILY.items(), adjusted, strict=True):
        assert found[key].adjusted_p == pytest.approx(expected, nan_ok=True)
        assert found[key].p == pytest.approx(p[key], nan_ok=True)
        gap = np.subtract(*pair)
        assert found[key].difference == pytest.approx(estimate(gap), nan_ok=True)
    words = [found[key].verdict() for key in FAMILY]
    assert words == ["higher", "lower", "not decided", "too few seeds"]
    assert [found["far"].verdict(sign) for sign in (2.5, -1)] == ["holds", "reversed"]
    assert [found["near"].verdict(1), found["once"].verdict(1)] == words[2:]


@pytest.mark.parametrize("items", [1, 50])
def test_two_seeds_have_no_verdict_and_do_not_count(items):
    """Far apart, and by the same gap, of which there is no variance."""
    far = np.array([[80.0], [82.0]]) + np.arange(items)
    found = compare({"two": (far, far - 20), "twice": (far, far % 3), **FAMILY})
    for name in ("two", "twice"):
        assert found[name].verdict(1) == "too few seeds"
        assert math.isnan(found[name].adjusted_p) and found[name].seeds_needed is None
    assert {name: found[name].adjusted_p for name in ("far", "near")} == {
        name: compare(FAMILY)[name].adjusted_p for name in ("far", "near")
    }


def test_one_comparison_more_can_undo_a_verdict():
    scores = (63.0, 66.0, 66.0)
    alone = compare({"arm": (scores, BASELINE)})["arm"]
    among = compare({"arm": (scores, BASELINE), **FAMILY})["arm"]
    assert alone.p == among.p and alone.adjusted_p < among.adjusted_p
    assert alone.verdict() == "higher"
    many = {n: (np.add(BASELINE[::-1], n), np.add(BASELINE, n)) for n in range(9)}
    last = compare({"arm": (scores, BASELINE)} | many)["arm"]
    assert last.verdict() == "not decided"


def test_one_hypothesis_counts_once_whatever_it_is_called():
    scores = (63.0, 66.0, 66.0)
    alone = compare({"arm": (scores, BASELINE), **FAMILY})
    twice = compare({"arm": (scores, BASELINE), "turned": (BASELINE, scores), **FAMILY})
    for name in ("arm", "far", "below", "near"):
        assert twice[name] == alone[name]
    assert twice["turned"].adjusted_p == twice["arm"].adjusted_p


def test_only_an_open_comparison_says_how_many_seeds_it_needs():
    found = compare(FAMILY)
    assert found["far"].seeds_needed is None and found["once"].seeds_needed is None
    assert found["near"].seeds_needed > 3
    alone = compare({"near": FAMILY["near"]})["near"]
    more = {
        "near": FAMILY["near"],
        "too": (np.add(FAMILY["near"][0], 1), np.add(BASELINE, 1)),
    }
    assert alone.seeds_needed < compare(more)["near"].seeds_needed


def test_items_bring_variance_that_seeds_do_not_show():
    rng = np.random.default_rng(0)
    items = rng.normal(0.3, 1.0, 50)  # the same gap at each seed, but for noise
    scores = items + 0.01 * rng.normal(size=(4, 50))
    by_items = compare({"arm": (scores, 0 * scores)})["arm"]
    by_seeds = compare({"arm": (scores.mean(1), np.zeros(4))})["arm"]
    assert by_items.difference.margin > 10 * by_seeds.difference.margin
    expected = 2 * math.sqrt(items.var(ddof=1) / 50)
    assert by_items.difference.margin == pytest.approx(expected, rel=0.02)
