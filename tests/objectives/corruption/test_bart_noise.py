"""rewrite: each of BART's noises follows its law, alone."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research.batch import SENTENCE, WORD
from research.objectives.corruption import bart_noise
from tests.testing.example_batches import keys, vocab

OF = vocab(size=400, sentinels=20)
LEVEL = 1e-4
FIRST = int(OF.ordinary_ids[0])


def draft(starts, num_rows=1, width=None, sentences=(0,)) -> bart_noise.Draft:
    """Rows of the same text, whose tokens say their places.

    starts: of each token, whether it starts a word. sentences: where some start.
    """
    width = width or len(starts)
    token = np.full((num_rows, width), OF.pad_id, np.int32)
    token[:, : len(starts)] = FIRST + np.arange(len(starts))
    flags = np.zeros((num_rows, width), np.uint8)
    flags[:, : len(starts)] = np.where(starts, WORD, 0)
    flags[:, list(sentences)] |= SENTENCE
    return bart_noise.Draft(token, flags, np.full(num_rows, len(starts)))


def rows(text: bart_noise.Draft) -> list[tuple]:
    """Tokens of each row, as places in the text they were; -1 for a mask."""
    place = np.where(text.token == OF.mask_id, -1, text.token - FIRST)
    return [tuple(row[:n]) for row, n in zip(place.tolist(), text.length, strict=True)]


def law(found: list, expected: dict) -> float:
    """p of a chi-square test of outcomes against their probabilities."""
    outcomes = list(expected)
    index = {outcome: n for n, outcome in enumerate(outcomes)}
    count = np.bincount([index[row] for row in found], minlength=len(outcomes))
    odds = np.array([expected[outcome] for outcome in outcomes])
    return stats.chisquare(count, odds / odds.sum() * len(found)).pvalue


def uniform(outcomes) -> dict:
    return dict.fromkeys(outcomes, 1.0)


def test_lengths_are_poisson_and_add_up_to_the_budget():
    num_rows, budget = 4000, 35
    length, drawn = bart_noise.draw_lengths(
        keys(num_rows), np.full(num_rows, budget), 3.0
    )
    assert (np.where(drawn, length, 0).sum(axis=1) == budget).all()
    last = drawn.sum(axis=1) - 1
    assert (length[np.arange(num_rows), last] > 0).all()
    first = np.minimum(length[:, :3].reshape(-1), 9)  # never cut by the budget
    odds = np.append(stats.poisson.pmf(np.arange(9), 3), stats.poisson.sf(8, 3))
    count = np.bincount(first, minlength=10)
    assert stats.chisquare(count, odds * len(first)).pvalue > LEVEL


def test_the_share_of_empty_spans_is_that_of_texts_of_117_words():
    # Of a budget of 35 words; the last span is never empty, so that a text's share is
    # less than P(0) = 0.0498 on average. Over all texts' spans it is P(0) (Wald).
    num_rows = 20_000
    budget = bart_noise.share(0.3, np.full(num_rows, 115))
    assert (budget == 35).all()
    length, drawn = bart_noise.draw_lengths(keys(num_rows), budget, 3.0)
    empty, count = ((length == 0) & drawn).sum(axis=1), drawn.sum(axis=1)
    share = empty / count
    error = share.std() / num_rows**0.5
    assert share.mean() == pytest.approx(0.0459, abs=4 * error)
    assert error < 5e-4
    excess = empty - 0.0497871 * count
    assert abs(excess.mean()) < 4 * excess.std() / num_rows**0.5


def test_lengths_depend_on_their_own_row_alone():
    budget = np.array([0, 3, 200, 40])
    length, drawn = bart_noise.draw_lengths(keys(4), budget, 0.5)
    for row in (0, 1, 3):
        alone, held = bart_noise.draw_lengths(
            keys(4)[row : row + 1], budget[[row]], 0.5
        )
        assert length[row][drawn[row]].tolist() == alone[0][held[0]].tolist()
    assert drawn.sum(axis=1)[0] == 0


def infilled(first: tuple, spans: tuple, num_words: int) -> tuple:
    """What is left of one-token words after spans (as fairseq walks them)."""
    kept, masks = set(range(num_words)), set(first)
    for begin, size in zip(first, spans, strict=True):
        for word in range(begin, min(begin + size, num_words)):
            kept.discard(word)
            if word > begin:
                masks.discard(word)
    return tuple(-1 if n in masks else n for n in range(num_words) if n in masks | kept)


def test_infilling_puts_its_spans_everywhere_equally_often():
    num_rows, num_words = 12_000, 5
    budget = np.full(num_rows, 3)
    length, drawn = bart_noise.draw_lengths(keys(num_rows), budget, 1.0)
    full = ((length > 0) | ~drawn).all(axis=1)  # of these the spans' places alone count
    text = draft([True] * num_words, num_rows)
    text = bart_noise.infill(
        text, keys(num_rows), OF, 0.6, unit="word", mean=1, random=0
    )
    found = [row for row, keep in zip(rows(text), full, strict=True) if keep]
    sizes = [tuple(size[held]) for size, held in zip(length, drawn, strict=True)]
    sizes = [size for size, keep in zip(sizes, full, strict=True) if keep]
    seen = {(3,), (2, 1), (1, 2), (1, 1, 1)}
    assert set(sizes) == seen
    for size in seen:
        mine = [row for row, other in zip(found, sizes, strict=True) if other == size]
        expected: dict = {}
        for first in permutations(range(num_words), len(size)):
            outcome = infilled(first, size, num_words)
            expected[outcome] = expected.get(outcome, 0) + 1
        assert law(mine, expected) > LEVEL, size


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.floats(0.05, 1),
    st.floats(0.2, 6),
    st.integers(0, 99),
)
def test_infilling_takes_whole_words_and_leaves_a_mask(starts, rate, mean, seed):
    starts = [True, *starts[1:]]
    text = draft(starts, 4, width=80)
    text.token[2:, len(starts) // 2] = OF.eos_id  # a separator is no word
    key = keys(4, seed)
    after = bart_noise.infill(text, key, OF, rate, unit="word", mean=mean, random=0)
    word = np.cumsum(starts) - 1
    for row in range(4):
        left = after.token[row, : after.length[row]]
        kept = left[left != OF.mask_id]
        before = text.token[row, : len(starts)]
        gone = ~np.isin(before, kept)
        assert kept.tolist() == before[~gone].tolist()  # in order, none invented
        num_words = len(bart_noise.words(text, OF, "word").held[row].nonzero()[0])
        budget = int(bart_noise.share(rate, np.array(num_words)))
        if row < 2:  # without a separator a word is what stands between starts
            assert all(len(set(gone[word == w])) == 1 for w in set(word.tolist()))
            assert len(set(word[gone].tolist())) <= budget
        assert (OF.eos_id in before) == (OF.eos_id in kept)
        edge = np.flatnonzero(np.diff(np.r_[False, gone].astype(int)) == 1)
        for place in edge:  # where something is gone, there is a mask
            follows = before[place:][~gone[place:]][:1]
            at = left.tolist().index(follows[0]) if len(follows) else len(left)
            assert left[at - 1] == OF.mask_id


def test_spans_do_not_go_past_a_separator():
    text = draft([True] * 9, 200)
    text.token[:, 4] = OF.eos_id
    found = bart_noise.words(text, OF, "word")
    assert found.end[0].tolist() == [4] * 4 + [8] * 4
    after = bart_noise.infill(text, keys(200), OF, 0.2, unit="word", mean=40, random=0)
    assert (np.sum(after.token == OF.eos_id, axis=1) == 1).all()
    for row in rows(after):
        at = row.index(OF.eos_id - FIRST)
        sides = row[:at], row[at + 1 :]
        assert all(len(side) == 4 or -1 in side for side in sides)


def test_a_span_without_length_adds_a_mask_and_hides_nothing():
    num_rows, num_words = 2000, 20
    text = draft([True] * num_words, num_rows, width=60)
    key, budget = keys(num_rows), np.ones(num_rows, int)
    length, drawn = bart_noise.draw_lengths(key, budget, 0.5)
    empty = ((length == 0) & drawn).sum(axis=1)
    assert empty.max() > 3  # before the one word that fills the budget
    after = bart_noise.infill(text, key, OF, 0.05, unit="word", mean=0.5, random=0)
    np.testing.assert_array_equal((after.token == OF.mask_id).sum(axis=1), 1 + empty)
    np.testing.assert_array_equal(after.length, num_words + empty)


def test_masks_are_inserted_anywhere():
    num_rows = 3000
    text = draft([True] * 4, num_rows, width=6)
    count = np.full(num_rows, 2)
    after = bart_noise.insert(text, keys(num_rows), OF, count, role="insert", random=0)
    outcomes = []
    for at in combinations(range(6), 2):
        rest = iter(range(4))
        outcomes.append(tuple(-1 if n in at else next(rest) for n in range(6)))
    assert law(rows(after), uniform(outcomes)) > LEVEL


def test_what_has_no_room_is_not_inserted():
    text = draft([True] * 4, 3, width=5)
    count = np.array([0, 1, 7])
    after = bart_noise.insert(text, keys(3), OF, count, role="insert", random=0)
    assert after.length.tolist() == [4, 5, 5]
    assert [sum(place < 0 for place in row) for row in rows(after)] == [0, 1, 1]


@pytest.mark.parametrize("unit", ["word", "token"])
def test_masking_and_deletion_take_a_share_rounded_up(unit):
    num_rows = 4000
    starts = [True, False, True, True, False, False, True]
    units = [[0, 1], [2], [3, 4, 5], [6]] if unit == "word" else [[n] for n in range(7)]
    taken = list(combinations(units, -(-len(units) // 3)))
    text, rate = draft(starts, num_rows), 1 / 3
    masked = bart_noise.mask(text, keys(num_rows), OF, rate, unit=unit, random=0)
    gone = [{n for part in parts for n in part} for parts in taken]
    outcomes = [tuple(-1 if n in out else n for n in range(7)) for out in gone]
    assert law(rows(masked), uniform(outcomes)) > LEVEL
    deleted = bart_noise.delete(text, keys(num_rows), OF, rate, unit=unit)
    outcomes = [tuple(n for n in range(7) if n not in out) for out in gone]
    assert law(rows(deleted), uniform(outcomes)) > LEVEL


def test_sentences_stand_in_any_order():
    num_rows = 6000
    text = draft([True] * 7, num_rows, sentences=(2, 3))
    found = rows(bart_noise.permute_sentences(text, keys(num_rows), 1.0))
    sentences = [(0, 1), (2,), (3, 4, 5, 6)]  # the first has no flag
    outcomes = [sum(order, ()) for order in permutations(sentences)]
    assert law(found, uniform(outcomes)) > LEVEL


def test_a_share_of_the_sentences_change_places():
    num_rows = 9000
    text = draft([True] * 4, num_rows, sentences=(0, 1, 2, 3))
    found = rows(bart_noise.permute_sentences(text, keys(num_rows), 0.5))
    expected: dict = {}
    for one, two in combinations(range(4), 2):
        for a, b in ((one, two), (two, one)):
            order = [0, 1, 2, 3]
            order[one], order[two] = a, b
            expected[tuple(order)] = expected.get(tuple(order), 0) + 1
    assert law(found, expected) > LEVEL


def test_sentences_do_not_depend_on_any_token():
    text = draft([True] * 9, 40, sentences=(0, 3, 6))
    other = text._replace(token=np.where(text.here, FIRST, OF.pad_id))
    before = bart_noise.permute_sentences(text, keys(40), 1.0)
    after = bart_noise.permute_sentences(other, keys(40), 1.0)
    np.testing.assert_array_equal(before.flags, after.flags)
    assert any(row != tuple(range(9)) for row in rows(before))


def test_rotation_begins_anywhere():
    num_rows = 6000
    text = draft([True] * 6, num_rows, width=9)
    found = rows(bart_noise.rotate(text, keys(num_rows), 0.5))
    turned = {tuple((n + k) % 6 for n in range(6)): 1 / 12 for k in range(6)}
    turned[tuple(range(6))] += 0.5
    assert law(found, turned) > LEVEL


def test_a_share_of_masks_is_random_and_never_special():
    num_rows = 300
    text = draft([True] * 60, num_rows, width=90)
    text = text._replace(token=np.where(text.here, FIRST, OF.pad_id))
    of = OF._replace(ordinary_ids=np.arange(300, 310, dtype=np.int32))
    count = np.full(num_rows, 30)
    for after in (
        bart_noise.mask(text, keys(num_rows), of, 0.5, unit="word", random=0.1),
        bart_noise.infill(
            text, keys(num_rows), of, 0.9, unit="word", mean=1.0, random=0.1
        ),
        bart_noise.insert(text, keys(num_rows), of, count, role="insert", random=0.1),
    ):
        new = after.token[after.here & (after.token != FIRST)]
        other = new[new != of.mask_id]
        assert stats.binomtest(len(other), len(new), 0.1).pvalue > LEVEL
        assert stats.chisquare(np.bincount(other - 300, minlength=10)).pvalue > LEVEL
