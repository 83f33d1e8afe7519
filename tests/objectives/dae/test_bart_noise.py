"""bart_noise: each noise alone has its distribution."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research.contract.batch import SENTENCE, WORD
from research.objectives.dae import bart_noise
from tests.testing.example_batches import keys, vocab

VOCAB = vocab(size=400, sentinels=20)
SIGNIFICANCE = 1e-4
FIRST = int(VOCAB.ordinary_ids[0])


def make_text(starts, num_rows=1, width=None, sentences=(0,)) -> bart_noise.NoisyText:
    """Rows of the same text, whose n-th token is the n-th ordinary id.

    Args:
      starts: of each token, whether it starts a word.
      sentences: indices of tokens that start a sentence.
    """
    width = width or len(starts)
    token = np.full((num_rows, width), VOCAB.pad_id, np.int32)
    token[:, : len(starts)] = FIRST + np.arange(len(starts))
    flags = np.zeros((num_rows, width), np.uint8)
    flags[:, : len(starts)] = np.where(starts, WORD, 0)
    flags[:, list(sentences)] |= SENTENCE
    return bart_noise.NoisyText(token, flags, np.full(num_rows, len(starts)))


def rows(text: bart_noise.NoisyText) -> list[tuple]:
    """The tokens of each row as indices in the original text; -1 for a mask."""
    index = np.where(text.token == VOCAB.mask_id, -1, text.token - FIRST)
    return [tuple(row[:n]) for row, n in zip(index.tolist(), text.length, strict=True)]


def infill(text, key, rate, mean, *, random_fraction=0, vocab=VOCAB):
    fields = dict(poisson_lambda=mean, random_fraction=random_fraction)
    return bart_noise.infill_spans(text, key, vocab, rate, unit="word", **fields)


def insert(text, key, count, *, random_fraction=0, vocab=VOCAB):
    return bart_noise.insert_masks(
        text, key, vocab, count, role="insert", random_fraction=random_fraction
    )


def p_value(found: list, expected: dict) -> float:
    """p value of a chi-square test of outcomes against their probabilities."""
    outcomes = list(expected)
    index = {outcome: n for n, outcome in enumerate(outcomes)}
    count = np.bincount([index[row] for row in found], minlength=len(outcomes))
    odds = np.array([expected[outcome] for outcome in outcomes])
    return stats.chisquare(count, odds / odds.sum() * len(found)).pvalue


def uniform(outcomes) -> dict:
    return dict.fromkeys(outcomes, 1.0)


def test_lengths_are_poisson_and_add_up_to_the_budget():
    num_rows, budget = 4000, 35
    length, drawn = bart_noise.draw_span_lengths(
        keys(num_rows), np.full(num_rows, budget), 3.0
    )
    assert (np.where(drawn, length, 0).sum(axis=1) == budget).all()
    last = drawn.sum(axis=1) - 1
    assert (length[np.arange(num_rows), last] > 0).all()
    first = np.minimum(length[:, :3].reshape(-1), 9)  # never cut by the budget
    odds = np.append(stats.poisson.pmf(np.arange(9), 3), stats.poisson.sf(8, 3))
    count = np.bincount(first, minlength=10)
    assert stats.chisquare(count, odds * len(first)).pvalue > SIGNIFICANCE


def test_span_lengths_depend_on_their_own_row_alone():
    budget = np.array([0, 3, 200, 40])
    length, drawn = bart_noise.draw_span_lengths(keys(4), budget, 0.5)
    for row in (0, 1, 3):
        alone, used = bart_noise.draw_span_lengths(
            keys(4)[row : row + 1], budget[[row]], 0.5
        )
        assert length[row][drawn[row]].tolist() == alone[0][used[0]].tolist()
    assert drawn.sum(axis=1)[0] == 0


def infilled(first: tuple, spans: tuple, num_words: int) -> tuple:
    """What is left of one-token words after spans, computed as by fairseq."""
    kept, masks = set(range(num_words)), set(first)
    for begin, size in zip(first, spans, strict=True):
        for word in range(begin, min(begin + size, num_words)):
            kept.discard(word)
            if word > begin:
                masks.discard(word)
    return tuple(-1 if n in masks else n for n in range(num_words) if n in masks | kept)


def test_infilled_spans_are_uniformly_distributed():
    num_rows, num_words = 12_000, 5
    budget = np.full(num_rows, 3)
    length, drawn = bart_noise.draw_span_lengths(keys(num_rows), budget, 1.0)
    full = ((length > 0) | ~drawn).all(axis=1)  # only where spans begin is random
    text = make_text([True] * num_words, num_rows)
    text = infill(text, keys(num_rows), 0.6, 1)
    found = [row for row, keep in zip(rows(text), full, strict=True) if keep]
    sizes = [tuple(size[used]) for size, used in zip(length, drawn, strict=True)]
    sizes = [size for size, keep in zip(sizes, full, strict=True) if keep]
    possible = {(3,), (2, 1), (1, 2), (1, 1, 1)}
    assert set(sizes) == possible
    for size in possible:
        mine = [row for row, other in zip(found, sizes, strict=True) if other == size]
        expected: dict = {}
        for first in permutations(range(num_words), len(size)):
            outcome = infilled(first, size, num_words)
            expected[outcome] = expected.get(outcome, 0) + 1
        assert p_value(mine, expected) > SIGNIFICANCE, size


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.floats(0.05, 1),
    st.floats(0.2, 6),
    st.integers(0, 99),
)
def test_infilling_removes_whole_words_and_leaves_a_mask(
    starts, rate, poisson_lambda, seed
):
    starts = [True, *starts[1:]]
    text = make_text(starts, 4, width=80)
    text.token[2:, len(starts) // 2] = VOCAB.eos_id  # a separator is not a word
    key = keys(4, seed)
    after = infill(text, key, rate, poisson_lambda)
    word = np.cumsum(starts) - 1
    for row in range(4):
        left = after.token[row, : after.length[row]]
        kept = left[left != VOCAB.mask_id]
        before = text.token[row, : len(starts)]
        gone = ~np.isin(before, kept)
        assert kept.tolist() == before[~gone].tolist()  # in order, none added
        num_words = len(
            bart_noise.find_words(text, VOCAB, "word").valid[row].nonzero()[0]
        )
        budget = int(bart_noise.ceil_fraction(rate, np.array(num_words)))
        if row < 2:  # without a separator words are delimited by starts
            assert all(len(set(gone[word == w])) == 1 for w in set(word.tolist()))
            assert len(set(word[gone].tolist())) <= budget
        assert (VOCAB.eos_id in before) == (VOCAB.eos_id in kept)
        edge = np.flatnonzero(np.diff(np.r_[False, gone].astype(int)) == 1)
        for begin in edge:  # where tokens are removed, there is a mask
            follows = before[begin:][~gone[begin:]][:1]
            at = left.tolist().index(follows[0]) if len(follows) else len(left)
            assert left[at - 1] == VOCAB.mask_id


def test_spans_do_not_cross_a_separator():
    text = make_text([True] * 9, 200)
    text.token[:, 4] = VOCAB.eos_id
    words = bart_noise.find_words(text, VOCAB, "word")
    assert words.span_limit[0].tolist() == [4] * 4 + [8] * 4
    after = infill(text, keys(200), 0.2, 40)
    assert (np.sum(after.token == VOCAB.eos_id, axis=1) == 1).all()
    for row in rows(after):
        at = row.index(VOCAB.eos_id - FIRST)
        halves = row[:at], row[at + 1 :]
        assert all(len(half) == 4 or -1 in half for half in halves)


def test_an_empty_span_adds_a_mask_and_hides_nothing():
    num_rows, num_words = 2000, 20
    text = make_text([True] * num_words, num_rows, width=60)
    key, budget = keys(num_rows), np.ones(num_rows, int)
    length, drawn = bart_noise.draw_span_lengths(key, budget, 0.5)
    empty = ((length == 0) & drawn).sum(axis=1)
    assert empty.max() > 3  # before the one word that fills the budget
    after = infill(text, key, 0.05, 0.5)
    np.testing.assert_array_equal((after.token == VOCAB.mask_id).sum(axis=1), 1 + empty)
    np.testing.assert_array_equal(after.length, num_words + empty)


def test_inserted_masks_are_uniformly_distributed():
    num_rows = 3000
    text = make_text([True] * 4, num_rows, width=6)
    count = np.full(num_rows, 2)
    after = insert(text, keys(num_rows), count)
    outcomes = []
    for at in combinations(range(6), 2):
        rest = iter(range(4))
        outcomes.append(tuple(-1 if n in at else next(rest) for n in range(6)))
    assert p_value(rows(after), uniform(outcomes)) > SIGNIFICANCE


def test_masks_without_room_are_not_inserted():
    text = make_text([True] * 4, 3, width=5)
    count = np.array([0, 1, 7])
    after = insert(text, keys(3), count)
    assert after.length.tolist() == [4, 5, 5]
    assert [sum(index < 0 for index in row) for row in rows(after)] == [0, 1, 1]


@pytest.mark.parametrize("unit", ["word", "token"])
def test_masking_and_deletion_round_the_number_of_words_up(unit):
    num_rows = 4000
    starts = [True, False, True, True, False, False, True]
    units = [[0, 1], [2], [3, 4, 5], [6]] if unit == "word" else [[n] for n in range(7)]
    taken = list(combinations(units, -(-len(units) // 3)))
    text, rate = make_text(starts, num_rows), 1 / 3
    masked = bart_noise.mask_words(
        text, keys(num_rows), VOCAB, rate, unit=unit, random_fraction=0
    )
    gone = [{n for part in parts for n in part} for parts in taken]
    outcomes = [tuple(-1 if n in out else n for n in range(7)) for out in gone]
    assert p_value(rows(masked), uniform(outcomes)) > SIGNIFICANCE
    deleted = bart_noise.delete_words(text, keys(num_rows), VOCAB, rate, unit=unit)
    outcomes = [tuple(n for n in range(7) if n not in out) for out in gone]
    assert p_value(rows(deleted), uniform(outcomes)) > SIGNIFICANCE


def test_all_sentence_orders_are_equally_likely():
    num_rows = 6000
    text = make_text([True] * 7, num_rows, sentences=(2, 3))
    found = rows(bart_noise.permute_sentences(text, keys(num_rows), 1.0))
    sentences = [(0, 1), (2,), (3, 4, 5, 6)]  # the first has no flag
    outcomes = [sum(order, ()) for order in permutations(sentences)]
    assert p_value(found, uniform(outcomes)) > SIGNIFICANCE


def test_a_fraction_of_the_sentences_is_permuted():
    num_rows = 9000
    text = make_text([True] * 4, num_rows, sentences=(0, 1, 2, 3))
    found = rows(bart_noise.permute_sentences(text, keys(num_rows), 0.5))
    expected: dict = {}
    for one, two in combinations(range(4), 2):
        for a, b in ((one, two), (two, one)):
            order = [0, 1, 2, 3]
            order[one], order[two] = a, b
            expected[tuple(order)] = expected.get(tuple(order), 0) + 1
    assert p_value(found, expected) > SIGNIFICANCE


def test_sentences_do_not_depend_on_tokens():
    text = make_text([True] * 9, 40, sentences=(0, 3, 6))
    other = text._replace(token=np.where(text.valid, FIRST, VOCAB.pad_id))
    before = bart_noise.permute_sentences(text, keys(40), 1.0)
    after = bart_noise.permute_sentences(other, keys(40), 1.0)
    np.testing.assert_array_equal(before.flags, after.flags)
    assert any(row != tuple(range(9)) for row in rows(before))


def test_rotations_are_uniformly_distributed():
    num_rows = 6000
    text = make_text([True] * 6, num_rows, width=9)
    found = rows(bart_noise.rotate_text(text, keys(num_rows), 0.5))
    expected = {tuple((n + k) % 6 for n in range(6)): 1 / 12 for k in range(6)}
    expected[tuple(range(6))] += 0.5
    assert p_value(found, expected) > SIGNIFICANCE


def test_a_fraction_of_masks_is_random_and_never_special():
    num_rows = 300
    text = make_text([True] * 60, num_rows, width=90)
    text = text._replace(token=np.where(text.valid, FIRST, VOCAB.pad_id))
    few = VOCAB._replace(ordinary_ids=np.arange(300, 310, dtype=np.int32))
    count = np.full(num_rows, 30)
    for after in (
        bart_noise.mask_words(
            text, keys(num_rows), few, 0.5, unit="word", random_fraction=0.1
        ),
        infill(text, keys(num_rows), 0.9, 1.0, random_fraction=0.1, vocab=few),
        insert(text, keys(num_rows), count, random_fraction=0.1, vocab=few),
    ):
        new = after.token[after.valid & (after.token != FIRST)]
        other = new[new != few.mask_id]
        assert stats.binomtest(len(other), len(new), 0.1).pvalue > SIGNIFICANCE
        assert (
            stats.chisquare(np.bincount(other - 300, minlength=10)).pvalue
            > SIGNIFICANCE
        )
