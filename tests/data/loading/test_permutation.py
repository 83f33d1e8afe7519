"""The order is a permutation without a pattern; a mixture's rates are exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.data.corpora.corpus import sampling_rates
from research.data.loading import permutation
from research.errors import UserError


def whole(num, seed=0, epoch=0):
    return permutation.permute(np.arange(num), num, seed=seed, epoch=epoch)


@pytest.mark.parametrize("num", [*range(1, 70), 255, 256, 257, 4095, 65536, 65537])
def test_order_is_a_permutation(num):
    for seed, epoch in ((0, 0), (0, 1), (7, 0), (-1, 3)):
        np.testing.assert_array_equal(np.sort(whole(num, seed, epoch)), np.arange(num))


@pytest.mark.parametrize("num", [65_536, 1_000_000])
@pytest.mark.parametrize("epoch", [0, 1])
def test_neighbours_do_not_correlate(num, epoch):
    row = whole(num, seed=0, epoch=epoch)
    for lag in (1, 2, 256):
        correlation = np.corrcoef(row[:-lag], row[lag:])[0, 1]
        assert abs(correlation) < 4 / np.sqrt(num), (lag, correlation)
    assert abs(np.corrcoef(row, np.arange(num))[0, 1]) < 4 / np.sqrt(num)


def test_neighbouring_differences_spread_like_chance():
    num, bins = 65_536, 64
    step = np.diff(whole(num)) % num
    seen = np.bincount(step * bins // num, minlength=bins)
    excess = (seen - num / bins) ** 2 / (num / bins)
    assert excess.sum() < bins - 1 + 4 * np.sqrt(2 * (bins - 1))


def test_seeds_and_epochs_have_orders_of_their_own():
    num = 10_000
    orders = [whole(num, seed, epoch) for seed in range(3) for epoch in range(3)]
    for i, a in enumerate(orders):
        for b in orders[:i]:
            assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(num)
            assert (a == b).mean() < 10 / num


@given(st.integers(1, 3000), st.integers(0, 9), st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
def test_places_are_independent_of_each_other(num, seed, epoch):
    place = np.array([0, num - 1, num // 2])
    alone = [
        permutation.permute(place[i : i + 1], num, seed=seed, epoch=np.array([epoch]))[
            0
        ]
        for i in range(3)
    ]
    assert permutation.permute(place, num, seed=seed, epoch=epoch).tolist() == alone


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_schedule_meets_its_rates_exactly_and_at_all_times(parts):
    rates = [part / 40 for part in parts]
    plan = permutation.schedule(rates)
    share = np.array(parts) / sum(parts)
    period = len(plan.corpus)
    np.testing.assert_allclose(plan.count, share * period, atol=1e-9)
    taken = (plan.corpus[:, None] == np.arange(len(parts))).cumsum(0)
    due = (np.arange(period) + 1)[:, None] * share
    assert np.all(abs(taken - due) < 1)


def test_schedule_of_awkward_rates_gives_every_corpus_its_turn():
    rates = [0.123456789, 1, 1e-3]
    plan = permutation.schedule(rates)
    assert len(plan.corpus) == permutation.LONGEST
    share = np.array(rates) / sum(rates)
    assert np.all(abs(plan.count - share * permutation.LONGEST) <= 1)


@pytest.mark.parametrize("rate", [0, -1, 1e-9])
def test_a_corpus_that_would_never_be_read_is_refused(rate):
    with pytest.raises(UserError, match=r"data\.mixture"):
        permutation.schedule([0.5, rate])


def test_each_corpus_is_read_on_from_where_it_was():
    plan = permutation.schedule([0.5, 0.2, 0.3])
    corpus, counter = plan.at(np.arange(1000))
    for each in range(3):
        own = counter[corpus == each]
        np.testing.assert_array_equal(own, np.arange(len(own)))
    far = np.array([10**15 + 3])
    np.testing.assert_array_equal(plan.at(far)[0], plan.at(far % 10)[0])


@pytest.mark.parametrize(
    ("alpha", "shares"),
    [(0.7, [0.83366, 0.16634]), (0.3, [0.66614, 0.33386]), (1.0, [10 / 11, 1 / 11])],
)
def test_an_alpha_brings_small_corpora_forward(alpha, shares):
    found = sampling_rates([100, 10], alpha)
    np.testing.assert_allclose(found, shares, atol=5e-6)
    plan = permutation.schedule(found)
    np.testing.assert_allclose(plan.count / plan.count.sum(), shares, atol=1e-4)


def test_an_examples_counter_undoes_its_schedule():
    plan = permutation.schedule([0.5, 0.2, 0.3])
    counter = np.arange(10**12, 10**12 + 57)
    np.testing.assert_array_equal(plan.counter(*plan.at(counter)), counter)
