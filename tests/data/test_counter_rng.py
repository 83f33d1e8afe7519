"""Random choices are pure functions of (key, role, index), with the stated laws.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from research.data import counter_rng
from tests.testing.example_batches import keys

LEVEL = 1e-4


def assert_equally_likely(outcomes: np.ndarray, num_outcomes: int) -> None:
    """Rows of `outcomes` take `num_outcomes` values, all with the same probability."""
    _, count = np.unique(outcomes, axis=0, return_counts=True)
    assert len(count) == num_outcomes
    assert num_outcomes == 1 or stats.chisquare(count).pvalue > LEVEL


def all_draws(key):
    """The result of every random function, with the same arguments in each row."""
    ones = np.ones(len(key), int)
    start = counter_rng.uniform(key, "start", 90) < 0.6
    candidate = counter_rng.uniform(key, "candidate", 90) < 0.9
    return [
        counter_rng.random_bits(key, "a", 7),
        counter_rng.uniform(key, "a", 7),
        counter_rng.permutation(key, "a", 9),
        counter_rng.choose_subset(key, "a", candidate, 5 * ones),
        counter_rng.choose_words(key, "a", start, candidate, 13 * ones),
        counter_rng.random_composition(key, "a", 12 * ones, 4 * ones),
        counter_rng.first_in_random_order(key, "a", candidate, 3 * ones),
        counter_rng.choose_by_weight(key, "a", candidate / 3.0, 3 * ones),
    ]


def test_the_hash_is_splitmix64():
    # First outputs of the published generator at seed 0.
    state = np.arange(1, 4, dtype=np.uint64) * counter_rng.GOLDEN_GAMMA
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert counter_rng.mix64(state).tolist() == published


def test_a_row_depends_only_on_its_key():
    key = keys(24)
    for forward, backward in zip(all_draws(key), all_draws(key[::-1]), strict=True):
        np.testing.assert_array_equal(forward, backward[::-1])
    parts = [all_draws(key[:1]), all_draws(key[1:7]), all_draws(key[7:])]
    for whole, *pieces in zip(all_draws(key), *parts, strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(pieces))


def test_a_longer_row_begins_with_the_same_numbers():
    key = keys(50)
    np.testing.assert_array_equal(
        counter_rng.random_bits(key, "a", 9),
        counter_rng.random_bits(key, "a", 99)[:, :9],
    )
    few, many = (
        counter_rng.permutation(key, "a", 9),
        counter_rng.permutation(key, "a", 99),
    )
    np.testing.assert_array_equal(np.argsort(few), np.argsort(many[:, :9]))


def test_keys_and_roles_give_uncorrelated_numbers():
    position = np.arange(4000)
    sources = [
        counter_rng.row_key(0, 0 * position, position),
        counter_rng.row_key(1, 0 * position, position),
        counter_rng.row_key(0, 0 * position + 1, position),
        counter_rng.row_key(0, position, 0 * position),
        counter_rng.row_key(0, 0 * position, position + 2**40),
    ]
    columns = [
        counter_rng.uniform(key, role, 3) for key in sources for role in ("a", "b")
    ]
    table = np.concatenate(columns, axis=1)
    shifted = np.concatenate([table[1:], table[:-1]], axis=1)
    for matrix in (table, shifted):
        related = np.corrcoef(matrix.T) - np.eye(matrix.shape[1])
        assert np.abs(related).max() < 5 / np.sqrt(len(position))


def test_uniform_is_uniform():
    values = counter_rng.uniform(keys(500), "a", 200)
    assert values.min() >= 0 and values.max() < 1
    assert stats.kstest(values.ravel(), "uniform").pvalue > LEVEL


def test_permutations_are_equally_likely():
    assert_equally_likely(counter_rng.permutation(keys(5000), "a", 4), 24)


def test_subsets_are_equally_likely():
    candidate = np.tile([True, False, True, True, False, True, True], (5000, 1))
    chosen = counter_rng.choose_subset(keys(5000), "a", candidate, np.full(5000, 2))
    assert not (chosen & ~candidate).any()
    assert_equally_likely(chosen, 10)


def test_weighted_draws_follow_one_another():
    """Of two draws without replacement, the second is among those that are left."""
    weight, num = np.array([1.0, 0.0, 2.0, 3.0]), 20_000
    drawn = counter_rng.choose_by_weight(
        keys(num), "a", np.tile(weight, (num, 1)), np.full(num, 2)
    )
    found, share = [], weight / weight.sum()
    for pair in itertools.combinations((0, 2, 3), 2):
        first, second = share[[*pair]]
        odds = first * second / (1 - first) + second * first / (1 - second)
        found.append((odds * num, drawn[:, pair].all(axis=1).sum()))
    expected, count = zip(*found, strict=True)
    assert stats.chisquare(count, expected).pvalue > LEVEL
    all_but_0 = counter_rng.choose_by_weight(keys(1), "a", weight[None], np.array([9]))
    np.testing.assert_array_equal(all_but_0, weight[None] > 0)


def test_subset_size_is_count_or_all_candidates():
    candidate = counter_rng.uniform(keys(300), "candidate", 40) < 0.5
    count = np.arange(300) % 41
    chosen = counter_rng.choose_subset(keys(300), "a", candidate, count)
    available = candidate.sum(axis=1)
    np.testing.assert_array_equal(chosen.sum(axis=1), np.minimum(count, available))


@pytest.mark.parametrize(("total", "parts"), [(6, 3), (5, 1), (4, 4), (1, 1)])
def test_compositions_are_equally_likely(total, parts):
    rows = 3000
    ends = counter_rng.random_composition(
        keys(rows), "a", np.full(rows, total), np.full(rows, parts)
    )
    cuts = list(itertools.combinations(range(1, total), parts - 1))
    assert (np.diff(ends, axis=1, prepend=0) > 0).all()
    assert (ends[:, -1] == total).all()
    assert_equally_likely(ends, len(cuts))


def test_compositions_of_rows_with_different_totals():
    total, parts = np.array([0, 1, 5, 9]), np.array([0, 1, 2, 7])
    ends = counter_rng.random_composition(keys(4), "a", total, parts)
    for row, (n, k) in enumerate(zip(total, parts, strict=True)):
        sizes = np.diff(ends[row, :k], prepend=0)
        assert (sizes > 0).all() and sizes.sum() == n


sizes = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@given(st.lists(st.tuples(sizes, st.integers(0, 20)), min_size=1, max_size=4))
def test_greedy_fit_equals_a_loop(cases):
    width = max(len(row) for row, _ in cases)
    size = np.array([row + [0] * (width - len(row)) for row, _ in cases])
    taken = counter_rng.greedy_fit(size, np.array([budget for _, budget in cases]))
    for row, (_, left) in enumerate(cases):
        for position, n in enumerate(size[row]):
            fits = 0 < n <= left
            assert taken[row, position] == fits
            left -= n * fits


flags = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=9, max_size=9)


@given(st.lists(flags, min_size=1, max_size=4), st.integers(0, 12), st.integers(0, 99))
def test_words_are_chosen_whole_until_none_fits(text, budget, seed):
    start, candidate = np.moveaxis(np.array(text), 2, 0)
    key = keys(len(text), seed)
    chosen = counter_rng.choose_words(
        key, "a", start, candidate, np.full(len(key), budget)
    )
    assert not (chosen & ~candidate).any()
    for row in range(len(key)):
        words, position = [], 0
        while position < 9:
            stop = position + 1
            if candidate[row, position]:
                while stop < 9 and candidate[row, stop] and not start[row, stop]:
                    stop += 1
                words.append(slice(position, stop))
            position = stop
        left = budget - chosen[row].sum()
        assert left >= 0
        for word in words:
            assert len(set(chosen[row, word])) == 1
            assert chosen[row, word][0] or word.stop - word.start > left


def test_words_are_chosen_in_random_order():
    # Words of 1, 2 and 3 tokens, a budget of 3: the first in random order decides.
    start = np.tile([True, True, False, True, False, False], (6000, 1))
    chosen = counter_rng.choose_words(
        keys(6000), "a", start, np.ones_like(start), np.full(6000, 3)
    )
    whole = chosen[:, [0, 1, 3]]
    assert set(map(tuple, whole)) == {(True, True, False), (False, False, True)}
    assert stats.binomtest(int(whole[:, 2].sum()), 6000, 1 / 3).pvalue > LEVEL
