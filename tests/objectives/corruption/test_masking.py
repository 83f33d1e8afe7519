"""Hiding: budgets, the fates of places and spans, boundaries, shuffled trigrams.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

import numpy as np
import pytest
from scipy import stats

from research.objectives.corruption import masking
from research.objectives.inputs import input_format
from tests.testing.example_batches import keys, vocab

LEVEL = 1e-4
OF = vocab()


def chosen_runs(num_rows, *, seed=0) -> np.ndarray:
    """[B, 66] bool: runs of 1 to 6 places that do not touch, 5 a row, from place 1."""
    rng = np.random.default_rng(seed)
    chosen = np.zeros((num_rows, 66), bool)
    for row in chosen:
        for first in range(1, 61, 13):
            row[first : first + rng.integers(1, 7)] = True
    return chosen


def hide(chosen, **fields):
    """The tokens before, the tokens after, and the arrays of scored places."""
    rng = np.random.default_rng(1)
    before = rng.choice(OF.ordinary_ids, chosen.shape).astype(np.int32)
    token = before.copy()
    fields = {"num_scored": 40, "mask": 0.8, "random": 0.1} | fields
    return before, token, masking.hide(token, chosen, keys(len(chosen)), OF, **fields)


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_budgets(rate):
    tokens = np.arange(200)
    most = int(np.ceil(rate * 199))
    nearest = masking.budget(tokens, rate, most)
    assert nearest.tolist() == [0, *(max(1, round(rate * n)) for n in tokens[1:])]
    up = masking.budget(tokens, rate, most, rounding="up")
    assert (up >= rate * tokens - 1e-6).all() and (up < rate * tokens + 1).all()
    many = np.full(20_000, 37)
    drawn = masking.budget(many, rate, most, rounding="random", key=keys(20_000))
    below, part = divmod(rate * 37, 1)
    assert set(drawn) == {below, below + 1}
    assert stats.binomtest(int((drawn > below).sum()), 20_000, part).pvalue > LEVEL
    none = masking.budget(0 * many, rate, most, rounding="random", key=keys(20_000))
    assert not none.any()


def test_a_budget_never_exceeds_the_room():
    for rounding in masking.ROUNDINGS:
        assert (
            masking.budget(
                np.array([400, 3]), 0.15, 7, rounding=rounding, key=keys(2)
            ).max()
            == 7
        )


@pytest.mark.parametrize("replace", ["token", "span"])
def test_eighty_ten_ten(replace):
    # Of units: places, or spans.
    chosen = chosen_runs(1500)
    before, after, _ = hide(chosen, replace=replace)
    masked, same = after == OF.mask_id, after == before
    np.testing.assert_array_equal(after[~chosen], before[~chosen])
    first = chosen & ~np.pad(chosen, [(0, 0), (1, 0)])[:, :-1]
    units = first if replace == "span" else chosen
    lucky = 0.1 / len(OF.ordinary_ids)
    count = np.array([masked[units].sum(), same[units].sum(), 0])
    count[2] = units.sum() - count.sum()
    expected = np.array([0.8, 0.1 + lucky, 0.1 - lucky]) * units.sum()
    assert stats.chisquare(count, expected).pvalue > LEVEL
    pair = chosen[:, 1:] & chosen[:, :-1]
    together = (masked[:, 1:] == masked[:, :-1])[pair]
    assert together.all() == (replace == "span")
    if replace == "span":  # places of a kept span are all kept, of a random one drawn
        kept = (same[:, 1:] & same[:, :-1])[pair].mean()
        assert 0.08 < kept < 0.12
        drawn = ~masked & ~same
        assert 0.08 < (drawn[:, 1:] & drawn[:, :-1])[pair].mean() < 0.12


@pytest.mark.parametrize("draw", masking.DRAWS)
def test_other_tokens_are_uniform(draw):
    chosen = chosen_runs(3000)
    _, after, _ = hide(chosen, mask=0.0, random=1.0, draw=draw, replace="span")
    pool = OF.ordinary_ids if draw == "ordinary" else np.arange(OF.size)
    count = np.bincount(after[chosen], minlength=OF.size)
    assert set(np.flatnonzero(count)) == set(pool)
    assert stats.chisquare(count[pool]).pvalue > LEVEL


def test_boundaries_are_the_clear_places_around_a_span():
    chosen = chosen_runs(50)
    chosen[0] = False
    chosen[1, 1:65] = True  # one span as long as a text
    scored, used = input_format.slots(chosen, 64)
    found = masking.boundaries(scored, used.astype(np.float32))
    for row, slot in zip(*np.nonzero(used), strict=True):
        place = scored[row, slot]
        left, right = found["left"][row, slot], found["right"][row, slot]
        assert not chosen[row, [left, right]].any()
        assert chosen[row, left + 1 : right].all() and left < place < right
        assert found["offset"][row, slot] == place - left - 1
    for array in found.values():
        assert not array[~used].any() and array.dtype == np.int32


def shuffled(num_rows, count, most=4):
    """Tokens before and after trigrams of every other third are shuffled."""
    rng = np.random.default_rng(2)
    before = np.tile(rng.permutation(OF.ordinary_ids)[:36], (num_rows, 1))
    free = np.arange(36) % 9 > 1
    token = before.copy()
    made = masking.shuffle(
        token,
        np.tile(free, (num_rows, 1)),
        keys(num_rows),
        OF,
        count=np.full(num_rows, count),
        most=most,
    )
    return before, token, free, made


def test_trigrams_are_shuffled_and_asked_for_at_their_places():
    before, after, free, made = shuffled(6000, 2)
    used = made["weight"] > 0
    assert (used.sum(axis=1) == 6).all() and used.shape == (6000, 12)
    assert free[made["scored"][used]].all()
    at = np.take_along_axis(before, made["scored"], axis=1)
    np.testing.assert_array_equal(made["target"][used], at[used])
    assert not made["scored"][~used].any()
    places = made["scored"][used].reshape(-1, 3)
    np.testing.assert_array_equal(np.diff(places), 1)  # three in a row
    row = np.repeat(np.arange(6000), 2)[:, None]
    was, now = before[row, places], after[row, places]
    np.testing.assert_array_equal(np.sort(was), np.sort(now))
    order = (now[:, :, None] == was[:, None]).argmax(axis=2) @ [9, 3, 1]
    kinds, num = np.unique(order, return_counts=True)
    assert len(kinds) == 6 and stats.chisquare(num).pvalue > LEVEL
    rest = np.ones_like(before, bool)
    rest[row, places] = False
    np.testing.assert_array_equal(after[rest], before[rest])


def test_trigrams_end_where_there_is_no_room():
    _, _, _, made = shuffled(200, 20, most=20)  # four runs of seven free places
    num = made["weight"].sum(axis=1) / 3
    assert set(num) == {5, 6, 7, 8}  # one or two a run


def test_five_per_cent_of_tokens_in_trigrams():
    assert masking.num_trigrams([0, 24, 60, 128, 512], 0.05).tolist() == [0, 0, 1, 2, 9]
