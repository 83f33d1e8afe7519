"""Statistics: intervals have their coverage, and tests their error rate."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from research.evaluation.statistics import (
    estimate,
    holm,
    mean_squares,
    mean_variance,
    paired_test,
    signal_to_noise,
    wilson_interval,
)

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


@pytest.mark.parametrize("scores", [[1.0, math.nan, 2.0], [[1, 2], [math.nan, 3]]])
def test_scores_of_which_one_is_not_defined_have_no_margin(scores):
    assert math.isnan(estimate(scores).margin)


def test_p_values_are_below_a_level_at_the_rate_of_that_level():
    draws = np.random.default_rng(1)
    pairs = draws.normal(size=(2000, 3)), draws.normal(size=(2000, 3))
    p = np.array([paired_test(a, b) for a, b in zip(*pairs, strict=True)])
    for level in (0.01, 0.05, 0.5):
        spread = math.sqrt(level * (1 - level) / len(p))
        assert abs(np.mean(p < level) - level) < 4 * spread


@given(NUMBERS.filter(lambda values: len(values) > 2), st.integers(0, 2**32 - 1))
def test_a_paired_test_depends_on_the_differences_alone(values, seed):
    gap = np.random.default_rng(seed).normal(1.0, 1.0, len(values))
    p = paired_test(values + gap, values)
    assert p == pytest.approx(paired_test(gap, 0 * gap), rel=1e-6, abs=1e-9)
    assert p == pytest.approx(paired_test(values, values + gap), rel=1e-6, abs=1e-9)
    assert paired_test(values, values) == 1.0


def test_without_variance_there_is_no_test_of_seeds():
    """One gap of all seeds, as counts have it by chance; none is no difference."""
    assert math.isnan(paired_test([1.0, 2.0, 4.0], [0.5, 1.5, 3.5]))
    assert math.isnan(paired_test([33.3, 35.1, 34.2], [32.3, 34.1, 33.2]))
    assert paired_test([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]) == 1.0
    always = np.ones((3, 20))
    assert paired_test(always, 0 * always) == 0.0


@pytest.mark.parametrize("scale", [1, 100, 0.3])
def test_counts_with_equal_sums_are_tested_by_what_varies_below_them(scale):
    """Each seed has one of 100 items more right, another one: p was 0, or nan."""
    gap = np.zeros((3, 100))
    gap[range(3), range(3)] = scale
    spread = math.sqrt(np.var(gap) * (300 / 297) / 300)
    expected = 2 * stats.t.sf(gap.mean() / spread, 2)
    base = scale * (np.random.default_rng(0).random((3, 100)) < 0.5)
    assert 0.1 < expected < 0.3
    assert paired_test(base + gap, base) == pytest.approx(expected, rel=0.05)
    mean, margin, _ = estimate(gap)
    assert mean < margin < 5 * mean


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_seeds_have_no_test_and_no_interval_over_items(count):
    scores = np.arange(12.0).reshape(3, 4)[:count] ** 2
    for values in (scores, scores[:, 0]):
        assert math.isnan(paired_test(values, 0 * values))
        assert math.isnan(paired_test(values, values - 1))  # one gap of all seeds
    assert estimate(scores) == (
        scores.mean(),
        pytest.approx(np.nan, nan_ok=True),
        count,
    )
    assert math.isnan(estimate(scores[:, :1]).margin) == (count == 1)


def _p(scores):
    variance = mean_variance(scores)
    return variance.p_value(scores.mean((-2, -1)))


def test_the_variance_of_a_mean_is_that_of_two_way_random_effects():
    scores = np.random.default_rng(0).normal(size=(4, 30))
    row, column = scores.mean(1), scores.mean(0)
    rest = scores - row[:, None] - column + scores.mean()
    expected = 30 * row.var(ddof=1), 4 * column.var(ddof=1), np.sum(rest**2) / (3 * 29)
    assert mean_squares(scores) == pytest.approx(expected)
    seeds, items, *_ = mean_variance(scores)
    assert seeds == pytest.approx(row.var(ddof=1) / 4)
    assert items == pytest.approx(max(expected[1] - expected[2], 0) / 120)


def test_an_interval_over_items_ends_where_p_is_its_level():
    scores = np.random.default_rng(1).normal(0.2, size=(3, 40)) + np.arange(40) / 20
    for level in (0.5, 0.95, 0.999):
        mean, margin, count = estimate(scores, level=level)
        assert (mean, count) == (pytest.approx(scores.mean()), 3)
        end = paired_test(scores, np.full_like(scores, mean + margin))
        assert end == pytest.approx(1 - level, rel=1e-9)


def test_with_one_source_of_variance_it_is_students_t_of_that_source():
    rng = np.random.default_rng(2)
    by_seed = np.repeat(rng.normal(1.0, 1.0, (5, 1)), 20, axis=1)
    expected = stats.ttest_1samp(by_seed[:, 0], 0.0).pvalue
    assert paired_test(by_seed, 0 * by_seed) == pytest.approx(expected)
    assert paired_test(by_seed[:, :1], 0 * by_seed[:, :1]) == pytest.approx(expected)
    by_item = np.repeat(rng.normal(0.3, 1.0, (1, 20)), 5, axis=0)
    expected = stats.ttest_1samp(by_item[0], 0.0).pvalue
    assert paired_test(by_item, 0 * by_item) == pytest.approx(expected)


@pytest.mark.parametrize("sds", [(1.0, 0.0, 0.0), (1.0, 1.5, 1.0), (0.2, 2.0, 3.0)])
def test_the_test_over_seeds_and_items_keeps_its_level(sds):
    """At 5 % and at the level of Holm's first step among ten."""
    rng, shape = np.random.default_rng(3), (20_000, 3, 20)
    seed, item = rng.normal(size=(*shape[:2], 1)), rng.normal(size=(20_000, 1, 20))
    noise = rng.normal(size=shape)
    p = _p(sds[0] * seed + sds[1] * item + sds[2] * noise)
    for level in (0.05, 0.005):
        spread = math.sqrt(level * (1 - level) / len(p))
        assert np.mean(p <= level) < level + 4 * spread
    assert np.mean(p <= 0.05) > 0.03


def test_holm_adjusts_as_the_published_example():
    """Wright (1992, Biometrics 48), the p-values of R's help page of p.adjust."""
    p = [0.01, 0.02, 0.03, 0.04, 0.05]
    assert holm(p) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm(p[::-1]) == pytest.approx([0.09, 0.09, 0.09, 0.08, 0.05])
    some = holm([math.nan, 0.04, 0.9, 0.01])
    assert some == pytest.approx([math.nan, 0.08, 0.9, 0.03], nan_ok=True)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_as_its_steps_say(p):
    """One after the other from the smallest, until one is above its share."""
    rejected = set()
    for step, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[index] * (len(p) - step) > 0.05:
            break
        rejected.add(index)
    assert set(np.flatnonzero(holm(p) <= 0.05)) == rejected


def test_signal_to_noise_is_that_of_the_official_code():
    """Of one model's last checkpoints: snr/metrics.py of allenai/signal-and-noise."""
    means, checkpoints = [0.3, 0.45, 0.4], [0.41, 0.39, 0.42, 0.40]
    signal = 0.15 / np.mean(means)
    expected = signal / (np.std(checkpoints) / np.mean(checkpoints))
    assert signal_to_noise(means, [checkpoints]) == pytest.approx(expected)
    shifted = [0.1 + value for value in checkpoints]
    centred = np.std(checkpoints) / (np.mean(checkpoints) + 0.05)
    both = signal_to_noise(means, [checkpoints, shifted])
    assert both == pytest.approx(signal / centred)


@pytest.mark.parametrize("right", [0, 1, 37, 50])
def test_the_interval_of_a_rate_is_wilsons(right):
    found = wilson_interval(right / 50, 50, level=0.9)
    expected = stats.binomtest(right, 50).proportion_ci(0.9, "wilson")
    assert found == pytest.approx(tuple(expected), abs=1e-12)
    assert wilson_interval(0.5, 1000)[1] - 0.5 == pytest.approx(0.0309, abs=1e-4)
