"""The shuffled order of an epoch is a permutation without a pattern."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.data.order import permutation


def shuffled(num, seed=0, epoch=0):
    return permutation.permute(np.arange(num), num, seed=seed, epoch=epoch)


@pytest.mark.parametrize("num", [*range(1, 70), 255, 256, 257, 4095, 65536, 65537])
def test_order_is_a_permutation(num):
    for seed, epoch in ((0, 0), (0, 1), (7, 0), (-1, 3)):
        np.testing.assert_array_equal(
            np.sort(shuffled(num, seed, epoch)), np.arange(num)
        )


@pytest.mark.parametrize("num", [65_536, 1_000_000])
@pytest.mark.parametrize("epoch", [0, 1])
def test_neighbours_are_not_correlated(num, epoch):
    row = shuffled(num, seed=0, epoch=epoch)
    for lag in (1, 2, 256):
        correlation = np.corrcoef(row[:-lag], row[lag:])[0, 1]
        assert abs(correlation) < 4 / np.sqrt(num), (lag, correlation)
    assert abs(np.corrcoef(row, np.arange(num))[0, 1]) < 4 / np.sqrt(num)


def test_differences_of_neighbours_are_uniform():
    num, bins = 65_536, 64
    step = np.diff(shuffled(num)) % num
    observed = np.bincount(step * bins // num, minlength=bins)
    excess = (observed - num / bins) ** 2 / (num / bins)
    assert excess.sum() < bins - 1 + 4 * np.sqrt(2 * (bins - 1))


def test_seeds_and_epochs_have_uncorrelated_orders():
    num = 10_000
    orders = [shuffled(num, seed, epoch) for seed in range(3) for epoch in range(3)]
    for i, a in enumerate(orders):
        for b in orders[:i]:
            assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(num)
            assert (a == b).mean() < 10 / num


@given(st.integers(1, 3000), st.integers(0, 9), st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
def test_a_position_does_not_depend_on_the_others(num, seed, epoch):
    position = np.array([0, num - 1, num // 2])
    together = permutation.permute(position, num, seed=seed, epoch=epoch)
    for i in range(3):
        alone = permutation.permute(
            position[i : i + 1], num, seed=seed, epoch=np.array([epoch])
        )
        assert alone.tolist() == [together[i]]
