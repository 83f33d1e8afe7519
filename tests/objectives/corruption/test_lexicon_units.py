"""Entries of a lexicon as units: whole, those asked for first, single words after."""

import numpy as np
import pytest

from research import objectives
from research.batch import WORD, Lexicon
from research.errors import UserError
from research.objectives.corruption import mask_units
from research.objectives.inputs import input_format
from tests.testing.example_batches import keys, texts, vocab

OF = vocab(size=96, labels=())
A, B, C, D = (int(token) for token in OF.ordinary_ids[:4])
OF = OF._replace(
    lexicon=Lexicon(
        np.array([[A, B, -1], [B, C, A], [D, -1, -1]], np.int32),
        np.array([2, 3, 1], np.int32),
        np.array([0, 1, 1], np.int32),
        ("entity", "phrase"),
    )
)


def example(rows, seed=0):
    """Texts of 40 words full of entries: of two pieces, of three words, of one."""
    rng = np.random.default_rng(seed)
    made = texts(60, [0] * rows, OF, seed=seed)
    token, flags, length = made.token.copy(), made.flags.copy(), made.length.copy()
    for row in range(rows):
        text = []
        while len(text) < 52:
            entry = OF.lexicon.token[rng.integers(3)]
            other = rng.choice(OF.ordinary_ids[4:], rng.integers(1, 6))
            text += [*entry[entry >= 0], *other]
        token[row, : len(text)], length[row] = text, len(text)
        flags[row, : len(text)] = WORD
        goes_on = (np.array(text[:-1]) == A) & (np.array(text[1:]) == B)
        flags[row, 1 : len(text)][goes_on] = 0
    return made._replace(token=token, flags=flags, length=length, first_length=length)


def chosen(made, rate=0.15, **fields):
    """The text, and what is chosen of it."""
    text = input_format.single(made, OF, 62)
    count = np.rint(rate * text.length).astype(int)
    return text, count, mask_units.choose(keys(len(count)), text, OF, count, **fields)


def entries_of(text, number) -> np.ndarray:
    """[B, L] bool: where a lexicon's entry begins, found the slow way."""
    entry = OF.lexicon.token[number][: OF.lexicon.size[number]]
    found = np.zeros(text.token.shape, bool)
    for row, place in np.ndindex(*text.token.shape):
        found[row, place] = list(text.token[row, place : place + len(entry)]) == [
            *entry
        ]
    return found


@pytest.mark.parametrize(
    ("kinds", "numbers"),
    [
        ("", [0, 1, 2]),
        ("entity", [0]),
        ("phrase", [1, 2]),
        ("phrase, entity", [0, 1, 2]),
    ],
)
def test_entries_of_the_kinds_are_hidden_whole_and_first(kinds, numbers):
    text, count, hit = chosen(example(60), unit="lexicon", kinds=kinds)
    inside, smallest = np.zeros_like(hit), np.full(len(hit), 99)
    for number in numbers:
        size = OF.lexicon.size[number]
        for row, place in zip(*np.nonzero(entries_of(text, number)), strict=True):
            assert len(set(hit[row, place : place + size])) == 1
            inside[row, place : place + size] = True
            if not hit[row, place]:
                smallest[row] = min(smallest[row], size)
    np.testing.assert_array_equal(hit.sum(axis=1), count)
    # Words come in where no further entry fits what entries have left.
    assert ((hit & ~inside).sum(axis=1) < smallest).all()
    assert (hit & inside).any() and (hit & ~inside).any()


def test_the_rest_of_the_budget_goes_to_words_outside_of_entries():
    text, count, hit = chosen(example(60), rate=0.5, unit="lexicon", kinds="entity")
    begins = entries_of(text, 0)
    inside = begins | np.pad(begins, [(0, 0), (1, 0)])[:, :-1]
    assert hit[inside].all() and (hit & ~inside).sum() > 300
    np.testing.assert_array_equal(hit.sum(axis=1), count)


def test_entries_may_be_the_words():
    # Chinese whole word masking: entries and all other words are chosen alike.
    text, _, hit = chosen(example(3000), unit="word", kinds="phrase")
    rates = []
    for number in (1, 2):
        size, begins = OF.lexicon.size[number], entries_of(text, number)
        row, place = np.nonzero(begins)
        span = hit[row[:, None], place[:, None] + np.arange(size)]
        assert (span == span[:, :1]).all()
        rates.append((span[:, 0].sum(), len(row)))
    other = (text.flags & WORD > 0) & np.isin(text.token, OF.ordinary_ids[4:])
    rates.append((hit[other].sum(), other.sum()))
    shares = [hits / all_ for hits, all_ in rates]
    assert min(shares) > 0.12 and max(shares) < 0.17  # long ones fit less often


def test_a_lexicon_and_its_kinds_have_to_be_there():
    made = example(2)
    objective = objectives.make_objective("mlm", unit="lexicon", kinds="name")
    with pytest.raises(UserError, match=r"data.lexicon.*name.*entity"):
        objective.corrupt(made, keys(2), OF, 62)
    with pytest.raises(UserError, match=r"data.lexicon, which is empty"):
        objective.corrupt(made, keys(2), OF._replace(lexicon=None), 62)
