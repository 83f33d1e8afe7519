"""Statistics: intervals have their coverage, and tests their error rate."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.evaluation.statistics import estimate, paired_test

NUMBERS = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8)


@pytest.mark.parametrize("count, level", [(3, 0.95), (5, 0.95), (3, 0.5)])
def test_an_interval_covers_the_true_mean_at_its_level(count, level):
    draws = np.random.default_rng(0).normal(7.0, 3.0, size=(2000, count))
    hits = 0
    for values in draws:
        mean, margin, _ = estimate(values, level=level)
        hits += abs(mean - 7.0) <= margin
    spread = math.sqrt(level * (1 - level) / len(draws))
    assert abs(hits / len(draws) - level) < 4 * spread


@given(NUMBERS, st.floats(-10, 10), st.floats(0.1, 10))
def test_an_interval_shifts_and_scales_with_its_values(values, shift, scale):
    mean, margin, count = estimate(values)
    moved = estimate([scale * value + shift for value in values])
    size = 1e-9 * (1 + max(map(abs, values)))
    assert moved.mean == pytest.approx(scale * mean + shift, abs=10 * size)
    assert moved.margin == pytest.approx(scale * margin, rel=1e-6, abs=100 * size)
    assert count == len(values)


def test_one_value_has_a_mean_and_no_margin():
    mean, margin, count = estimate([2.5])
    assert (mean, count) == (2.5, 1) and math.isnan(margin)


def test_p_values_are_below_a_level_at_the_rate_of_that_level():
    draws = np.random.default_rng(1)
    pairs = draws.normal(size=(2000, 3)), draws.normal(size=(2000, 3))
    p = np.array([paired_test(a, b) for a, b in zip(*pairs, strict=True)])
    for level in (0.01, 0.05, 0.5):
        spread = math.sqrt(level * (1 - level) / len(p))
        assert abs(np.mean(p < level) - level) < 4 * spread


@given(NUMBERS, st.integers(0, 2**32 - 1))
def test_a_paired_test_depends_on_the_differences_alone(values, seed):
    gap = np.random.default_rng(seed).normal(1.0, 1.0, len(values))
    p = paired_test(values + gap, values)
    assert p == pytest.approx(paired_test(gap, 0 * gap), rel=1e-6, abs=1e-9)
    assert p == pytest.approx(paired_test(values, values + gap), rel=1e-6, abs=1e-9)
    assert paired_test(values, values) == 1.0


def test_without_variance_p_is_0_or_1_and_one_pair_gives_nan():
    assert paired_test([1.0, 2.0], [0.5, 1.5]) == 0.0
    assert math.isnan(paired_test([1.0], [2.0]))
