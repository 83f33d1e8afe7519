"""mask_units: whole entries of a lexicon, those of the given types first."""

import numpy as np
import pytest

from research import objectives
from research.contract.batch import WORD, Lexicon
from research.contract.errors import UserError
from research.objectives.layout import input_format
from research.objectives.noise import mask_units
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab(size=96, labels=())
A, B, C, D = (int(token) for token in VOCAB.ordinary_ids[:4])
VOCAB = VOCAB._replace(
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
    made = texts(60, [0] * rows, VOCAB, seed=seed)
    token, flags, length = made.token.copy(), made.flags.copy(), made.length.copy()
    for row in range(rows):
        text = []
        while len(text) < 52:
            entry = VOCAB.lexicon.token[rng.integers(3)]
            words = rng.choice(VOCAB.ordinary_ids[4:], rng.integers(1, 6))
            text += [*entry[entry >= 0], *words]
        token[row, : len(text)], length[row] = text, len(text)
        flags[row, : len(text)] = WORD
        inside = (np.array(text[:-1]) == A) & (np.array(text[1:]) == B)
        flags[row, 1 : len(text)][inside] = 0
    return made._replace(token=token, flags=flags, length=length, first_length=length)


def chosen(made, rate=0.15, **fields):
    """The text, the budget of each row, and what is chosen."""
    text = input_format.single(made, VOCAB, 62)
    count = np.rint(rate * text.length).astype(int)
    return (
        text,
        count,
        mask_units.choose_units(keys(len(count)), text, VOCAB, count, **fields),
    )


def entries_of(text, number) -> np.ndarray:
    """[B, L] bool: where an entry of the lexicon begins, by a plain loop."""
    entry = VOCAB.lexicon.token[number][: VOCAB.lexicon.size[number]]
    found = np.zeros(text.token.shape, bool)
    for row, begin in np.ndindex(*text.token.shape):
        tokens = text.token[row, begin : begin + len(entry)]
        found[row, begin] = tokens.tolist() == entry.tolist()
    return found


@pytest.mark.parametrize(
    ("entry_types", "numbers"),
    [
        ("", [0, 1, 2]),
        ("entity", [0]),
        ("phrase", [1, 2]),
        ("phrase, entity", [0, 1, 2]),
    ],
)
def test_entries_of_the_types_are_masked_whole_and_first(entry_types, numbers):
    text, count, masked = chosen(example(60), unit="lexicon", entry_types=entry_types)
    inside, smallest = np.zeros_like(masked), np.full(len(masked), 99)
    for number in numbers:
        size = VOCAB.lexicon.size[number]
        for row, begin in zip(*np.nonzero(entries_of(text, number)), strict=True):
            assert len(set(masked[row, begin : begin + size])) == 1
            inside[row, begin : begin + size] = True
            if not masked[row, begin]:
                smallest[row] = min(smallest[row], size)
    np.testing.assert_array_equal(masked.sum(axis=1), count)
    # Words are masked only where no further entry fits the budget.
    assert ((masked & ~inside).sum(axis=1) < smallest).all()
    assert (masked & inside).any() and (masked & ~inside).any()


def test_the_rest_of_the_budget_goes_to_words_outside_of_entries():
    fields = {"unit": "lexicon", "entry_types": "entity"}
    text, count, masked = chosen(example(60), rate=0.5, **fields)
    begins = entries_of(text, 0)
    inside = begins | np.pad(begins, [(0, 0), (1, 0)])[:, :-1]
    assert masked[inside].all() and (masked & ~inside).sum() > 300
    np.testing.assert_array_equal(masked.sum(axis=1), count)


def test_entries_may_be_the_words():
    # Chinese whole word masking: entries and all other words are equally likely.
    text, _, masked = chosen(example(3000), unit="word", entry_types="phrase")
    rates = []
    for number in (1, 2):
        size, begins = VOCAB.lexicon.size[number], entries_of(text, number)
        row, begin = np.nonzero(begins)
        span = masked[row[:, None], begin[:, None] + np.arange(size)]
        assert (span == span[:, :1]).all()
        rates.append(span[:, 0].mean())
    words = (text.flags & WORD > 0) & np.isin(text.token, VOCAB.ordinary_ids[4:])
    rates.append(masked[words].mean())
    assert min(rates) > 0.12 and max(rates) < 0.17  # long ones fit less often


def test_a_missing_lexicon_or_entry_type_is_refused():
    made = example(2)
    objective = objectives.make_objective("mlm", unit="lexicon", entry_types="name")
    with pytest.raises(UserError, match=r"data.lexicon.*name.*entity"):
        objective.corrupt(made, keys(2), VOCAB, 62)
    with pytest.raises(UserError, match=r"data.lexicon, which is empty"):
        objective.corrupt(made, keys(2), VOCAB._replace(lexicon=None), 62)
