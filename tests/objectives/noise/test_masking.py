"""masking: budgets, replacements, span boundaries, shuffled trigrams.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

import numpy as np
import pytest
from scipy import stats

from research.contract.batch import NEVER
from research.contract.errors import UserError
from research.objectives.layout import input_format
from research.objectives.noise import masking
from tests.testing.example_batches import keys, vocab

SIGNIFICANCE = 1e-4
VOCAB = vocab()


def chosen_runs(num_rows, *, seed=0) -> np.ndarray:
    """[B, 66] bool: 5 separate runs of 1 to 6 positions a row, from position 1 on."""
    rng = np.random.default_rng(seed)
    chosen = np.zeros((num_rows, 66), bool)
    for row in chosen:
        for first in range(1, 61, 13):
            row[first : first + rng.integers(1, 7)] = True
    return chosen


def replace_chosen(chosen, vocabulary=None, **fields):
    """Random tokens before and after the chosen ones are replaced."""
    rng = np.random.default_rng(1)
    before = rng.choice(VOCAB.ordinary_ids, chosen.shape).astype(np.int32)
    after = before.copy()
    fields = {"mask_fraction": 0.8, "random_fraction": 0.1} | fields
    masking.replace_chosen(
        after, chosen, keys(len(chosen)), vocabulary or VOCAB, num_scored=40, **fields
    )
    return before, after


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_budgets(rate):
    tokens = np.arange(200)
    max_count = int(np.ceil(rate * 199))
    nearest = masking.mask_budget(tokens, rate, max_count)
    assert nearest.tolist() == [0, *(max(1, round(rate * n)) for n in tokens[1:])]
    up = masking.mask_budget(tokens, rate, max_count, rounding="up")
    assert (up >= rate * tokens - 1e-6).all() and (up < rate * tokens + 1).all()
    many = np.full(20_000, 37)
    random = {"rounding": "random", "key": keys(20_000)}
    drawn = masking.mask_budget(many, rate, max_count, **random)
    below, part = divmod(rate * 37, 1)
    assert set(drawn) == {below, below + 1}
    assert (
        stats.binomtest(int((drawn > below).sum()), 20_000, part).pvalue > SIGNIFICANCE
    )
    assert not masking.mask_budget(0 * many, rate, max_count, **random).any()


def test_a_budget_never_exceeds_the_maximum():
    for rounding in masking.ROUNDINGS:
        num_tokens = np.array([400, 3])
        count = masking.mask_budget(num_tokens, 0.15, 7, rounding=rounding, key=keys(2))
        assert count.max() == 7


def test_units_are_chosen_by_themselves():
    """ERNIE's batching.py, mask: a number a unit, compared with the rate."""
    words = np.tile([1, 0, 1, 1, 0, 0, 1, 1], (4000, 5)).astype(bool)  # of 2, 1, 3, ...
    candidate = np.ones_like(words)
    candidate[:, 7::8] = False
    chosen = masking.choose_independently(keys(4000), words, candidate, 0.15, 40)
    assert not (chosen & ~candidate).any()
    assert (chosen[:, 0] == chosen[:, 1]).all()
    assert (chosen[:, 3::8] == chosen[:, 5::8]).all()
    number = chosen[:, [0, 2, 3, 6]].sum(axis=1)  # of four units
    count = np.bincount(number, minlength=5)[:4]
    expected = 4000 * stats.binom.pmf(np.arange(4), 4, 0.15)
    expected[3] += 4000 - expected.sum()
    count[3] += 4000 - count.sum()
    assert stats.chisquare(count, expected).pvalue > SIGNIFICANCE
    tokens = masking.choose_independently(keys(4000), candidate, candidate, 0.15, 40)
    number = tokens.sum(axis=1)  # of 35 candidates; its variance, at 5 deviations
    assert abs(number.mean() - 35 * 0.15) < 5 * (4.46 / 4000) ** 0.5
    assert abs(number.var() - 4.46) < 5 * 4.46 * (2 / 4000) ** 0.5
    few = masking.choose_independently(keys(4000), candidate, candidate, 0.5, 9)
    assert few.sum(axis=1).max() == 9 and not (few & ~candidate).any()
    position = np.bincount(np.nonzero(few)[1], minlength=40)[candidate[0]]
    assert stats.chisquare(position).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("draw_unit", masking.DRAW_UNITS)
def test_eighty_ten_ten(draw_unit):
    chosen = chosen_runs(1500)
    before, after = replace_chosen(chosen, draw_unit=draw_unit)
    masked, same = after == VOCAB.mask_id, after == before
    np.testing.assert_array_equal(after[~chosen], before[~chosen])
    first = chosen & ~np.pad(chosen, [(0, 0), (1, 0)])[:, :-1]
    units = first if draw_unit == "span" else chosen
    unchanged = 0.1 / len(VOCAB.ordinary_ids)  # random, but equal to the original
    count = np.array([masked[units].sum(), same[units].sum(), 0])
    count[2] = units.sum() - count.sum()
    expected = np.array([0.8, 0.1 + unchanged, 0.1 - unchanged]) * units.sum()
    assert stats.chisquare(count, expected).pvalue > SIGNIFICANCE
    pair = chosen[:, 1:] & chosen[:, :-1]
    together = (masked[:, 1:] == masked[:, :-1])[pair]
    assert together.all() == (draw_unit == "span")
    if draw_unit == "span":  # a kept span is kept whole; random tokens are independent
        kept = (same[:, 1:] & same[:, :-1])[pair].mean()
        assert 0.08 < kept < 0.12
        drawn = ~masked & ~same
        assert 0.08 < (drawn[:, 1:] & drawn[:, :-1])[pair].mean() < 0.12


@pytest.mark.parametrize("random_tokens", masking.TOKEN_SETS)
def test_random_tokens_are_uniform(random_tokens):
    fields = {"random_tokens": random_tokens, "draw_unit": "span"}
    chosen = chosen_runs(3000)
    _, after = replace_chosen(chosen, mask_fraction=0.0, random_fraction=1.0, **fields)
    ordinary = random_tokens == "ordinary"
    pool = VOCAB.ordinary_ids if ordinary else np.arange(VOCAB.size)
    count = np.bincount(after[chosen], minlength=VOCAB.size)
    assert set(np.flatnonzero(count)) == set(pool)
    assert stats.chisquare(count[pool]).pvalue > SIGNIFICANCE


def test_random_tokens_of_the_corpus_are_as_frequent_as_there(monkeypatch):
    count = np.arange(VOCAB.size)
    count[VOCAB.ordinary_ids[::3]] = 0
    monkeypatch.setattr(f"{__name__}.VOCAB", VOCAB._replace(token_count=count))
    chosen = chosen_runs(3000)
    fields = {"mask_fraction": 0.0, "random_fraction": 1.0, "random_tokens": "corpus"}
    found = np.bincount(replace_chosen(chosen, **fields)[1][chosen])
    expected = np.where(VOCAB.is_special, 0, count) / count[~VOCAB.is_special].sum()
    occurs = expected > 0
    assert not found[~occurs].any()
    test = stats.chisquare(found[occurs], expected[occurs] * chosen.sum())
    assert test.pvalue > SIGNIFICANCE


def test_random_tokens_of_the_corpus_need_its_counts():
    chosen = chosen_runs(2)
    with pytest.raises(
        UserError, match=r"objective.random_tokens is corpus, which needs counts"
    ):
        no_counts = VOCAB._replace(token_count=None)
        replace_chosen(chosen, no_counts, random_tokens="corpus")


def drawn_positions(num_rows, *, mask_fraction=0.85):
    """Rows of 40 tokens, of which 30 are candidates, before and after 6 are drawn."""
    before = np.tile(VOCAB.ordinary_ids[np.arange(40) % 30], (num_rows, 1))
    candidate = np.tile(np.arange(40) % 4 > 0, (num_rows, 1))
    after = before.copy()
    scored = masking.mask_drawn_positions(
        *(after, candidate, np.full(num_rows, 40), keys(num_rows), VOCAB),
        rate=0.15,
        max_count=8,
        mask_fraction=mask_fraction,
    )
    return before, after, candidate, scored


def test_positions_may_be_drawn_twice_and_all_are_equally_likely():
    before, after, candidate, scored = drawn_positions(9000)
    position = scored["scored"][:, :6]
    used = np.arange(8) < 6
    np.testing.assert_array_equal(scored["weight"], np.tile(used, (9000, 1)))
    target = np.take_along_axis(before, position, axis=1)
    np.testing.assert_array_equal(scored["target"][:, :6], target)
    assert (scored["target"][:, 6:] == VOCAB.pad_id).all()
    count = np.bincount(position.ravel(), minlength=40)
    assert not count[~candidate[0]].any()
    assert stats.chisquare(count[candidate[0]]).pvalue > SIGNIFICANCE
    twice = (np.diff(position, axis=1) == 0).any(axis=1).sum()
    distinct = np.prod(1 - np.arange(6) / 30)
    assert stats.binomtest(int(twice), 9000, 1 - distinct).pvalue > SIGNIFICANCE
    changed = np.zeros(before.shape, bool)
    np.put_along_axis(changed, position, True, axis=1)
    assert ((after == before) | (changed & (after == VOCAB.mask_id))).all()


def test_a_position_is_masked_if_one_of_its_draws_is():
    _, after, _, scored = drawn_positions(9000, mask_fraction=0.5)
    position = scored["scored"][:, :6]
    times = (position[:, :, None] == position[:, None]).sum(axis=2)
    masked = np.take_along_axis(after, position, axis=1) == VOCAB.mask_id
    for number in (1, 2):
        here = masked[times == number]
        here = here[::number]  # one entry a position
        test = stats.binomtest(int(here.sum()), len(here), 1 - 0.5**number)
        assert test.pvalue > SIGNIFICANCE


def test_rows_without_candidates_have_no_draws():
    empty = np.zeros((3, 9), bool)
    token, many = np.full((3, 9), VOCAB.bos_id), np.array([9, 0, 9])
    scored = masking.mask_drawn_positions(
        *(token, empty, many, keys(3), VOCAB), rate=0.3, max_count=4, mask_fraction=1.0
    )
    assert not scored["weight"].any() and (token == VOCAB.bos_id).all()


def test_boundaries_are_the_unmasked_positions_around_a_span():
    chosen = chosen_runs(50)
    chosen[0] = False
    chosen[1, 1:65] = True  # one span as long as a text
    scored, used = input_format.scored_positions(chosen, 64)
    special = np.zeros(chosen.shape, bool)
    special[2:, [0, -1]] = True
    found = masking.span_boundaries(scored, used.astype(np.float32), special)
    for row, slot in zip(*np.nonzero(used), strict=True):
        position = scored[row, slot]
        left, right = found["left"][row, slot], found["right"][row, slot]
        assert not chosen[row, [left, right]].any()
        assert chosen[row, left + 1 : right].all() and left < position < right
        offset = NEVER if special[row, [left, right]].any() else position - left - 1
        assert found["offset"][row, slot] == offset
    for array in found.values():
        assert not array[~used].any() and array.dtype == np.int32


def shuffled(num_rows, count, max_count=4):
    """Tokens before and after, [L] bool candidates, and the scored arrays."""
    rng = np.random.default_rng(2)
    before = np.tile(rng.permutation(VOCAB.ordinary_ids)[:36], (num_rows, 1))
    free = np.arange(36) % 9 > 1
    after = before.copy()
    made = masking.shuffle_trigrams(
        after,
        np.tile(free, (num_rows, 1)),
        keys(num_rows),
        VOCAB,
        count=np.full(num_rows, count),
        max_count=max_count,
    )
    return before, after, free, made


def test_trigrams_are_shuffled_and_scored_at_their_positions():
    before, after, free, made = shuffled(6000, 2)
    used = made["weight"] > 0
    assert (used.sum(axis=1) == 6).all() and used.shape == (6000, 12)
    assert free[made["scored"][used]].all()
    at = np.take_along_axis(before, made["scored"], axis=1)
    np.testing.assert_array_equal(made["target"][used], at[used])
    assert not made["scored"][~used].any()
    positions = made["scored"][used].reshape(-1, 3)
    np.testing.assert_array_equal(np.diff(positions), 1)  # consecutive
    row = np.repeat(np.arange(6000), 2)[:, None]
    was, now = before[row, positions], after[row, positions]
    np.testing.assert_array_equal(np.sort(was), np.sort(now))
    order = (now[:, :, None] == was[:, None]).argmax(axis=2) @ [9, 3, 1]
    orders, num = np.unique(order, return_counts=True)
    assert len(orders) == 6 and stats.chisquare(num).pvalue > SIGNIFICANCE
    rest = np.ones_like(before, bool)
    rest[row, positions] = False
    np.testing.assert_array_equal(after[rest], before[rest])


def test_trigrams_are_fewer_where_no_more_fit():
    _, _, _, made = shuffled(200, 20, max_count=20)  # four runs of seven candidates
    num = made["weight"].sum(axis=1) / 3
    assert set(num) == {5, 6, 7, 8}  # one or two a run


def test_five_per_cent_of_tokens_in_trigrams():
    assert masking.num_trigrams([0, 24, 60, 128, 512], 0.05).tolist() == [0, 0, 1, 2, 9]
