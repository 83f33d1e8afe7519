"""sentences: orders of pieces, connectives; pairs are those of `relations`.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from research import objectives
from research.batch import SENTENCE, WORD, Lexicon
from research.errors import UserError
from research.objectives import sentences
from research.objectives.inputs import sentence_pairs
from tests.testing.example_batches import keys, texts, vocab

LEVEL = 1e-4
OF = vocab(size=96)


def corrupt(example, length, of=OF, **fields):
    objective = objectives.make_objective("sentences", **fields)
    return objective.corrupt(example, keys(len(example.length)), of, length)


def passages(num_rows, width, every=6):
    """Texts whose sentences have `every` tokens."""
    rng = np.random.default_rng(0)
    example = texts(width, rng.integers(0, width + 1, num_rows), OF)
    flags = example.flags.copy()
    flags[:, ::every] |= SENTENCE
    return example._replace(flags=flags)


@pytest.mark.parametrize("pieces", [1, 2, 3, 4])
def test_classes_are_all_orders_of_up_to_so_many_pieces(pieces):
    orders = sentences.orders(pieces)
    assert len(orders) == sum(math.factorial(n) for n in range(1, pieces + 1))
    objective = objectives.make_objective(
        "sentences", relation="reorder", pieces=pieces
    )
    assert objective.num_answers(OF) == len(orders)
    read = objective.text_spec(64)
    assert (read.unit, read.length) == ("passage", 63 - pieces)


def pieces_of(token) -> list[list[int]]:
    """What stands between bos, the eos after each piece, and padding."""
    text = token[1 : np.flatnonzero(token == OF.eos_id)[-1] + 1]
    cut = np.flatnonzero(text == OF.eos_id)
    return [part[part != OF.eos_id].tolist() for part in np.split(text, cut)[:-1]]


def test_the_label_puts_the_pieces_back_in_order():
    example = passages(300, 60)
    batch = corrupt(example, 64, relation="reorder")
    first = list(itertools.accumulate([0, 1, 2]))
    for row, count in enumerate(example.length):
        weight, label = batch["label_weight"][row], batch["label"][row]
        assert weight == (count > 0)
        if not count:
            assert not batch["segment"][row].any() and label == 0
            continue
        assert batch["token"][row, 0] == OF.bos_id
        shown = pieces_of(batch["token"][row])
        order = sentences.orders(3)[label][: len(shown)]
        assert first[len(shown) - 1] <= label < [*first, 9][len(shown)]
        text = [token for i in np.argsort(order) for token in shown[i]]
        assert text == example.token[row, :count].tolist()
        cuts = np.cumsum([len(shown[i]) for i in np.argsort(order)])[:-1]
        assert all(example.flags[row, cut] & SENTENCE for cut in cuts)
        assert batch["segment"][row].sum() == count + 1 + len(shown)


def test_pieces_and_orders_are_equally_likely():
    full = passages(4000, 60)
    full = full._replace(length=np.full_like(full.length, 60))
    label = corrupt(full, 64, relation="reorder")["label"]
    count = np.bincount(label, minlength=9)
    expected = np.repeat([1, 1 / 2, 1 / 6], [1, 2, 6]) * 4000 / 3
    assert stats.chisquare(count, expected).pvalue > LEVEL


def test_one_sentence_is_one_piece():
    batch = corrupt(passages(40, 60, every=99), 64, relation="reorder")
    assert not batch["label"].any()


ONE, TWO, THREE, OTHER_DOCUMENT = (int(token) for token in OF.ordinary_ids[:4])
CONNECTIVES = OF._replace(
    lexicon=Lexicon(
        np.array([[OTHER_DOCUMENT, -1], [ONE, -1], [TWO, THREE]], np.int32),
        np.array([1, 1, 2], np.int32),
        np.array([0, 1, 1], np.int32),
        ("entity", "connective"),
    )
)


def test_a_connective_is_taken_away_and_asked_for():
    example = texts(20, [14] * 6 + [8, 9, 0], OF)
    example = example._replace(first_length=np.array([7] * 8 + [0], np.int32))
    token, flags = example.token.copy(), example.flags.copy()
    token[np.isin(token, OF.ordinary_ids[:4])] = OF.ordinary_ids[9]
    flags[:, 7:11] |= WORD
    token[0, 7], token[1, 7:9], token[2, 7] = ONE, (TWO, THREE), TWO
    token[3, 7], token[4, 8] = OTHER_DOCUMENT, ONE
    token[5, 6:8], flags[5, 6] = (TWO, THREE), WORD  # across the two sentences
    token[6, 7] = token[7, 7] = ONE
    flags[1, 8] = 0
    example = example._replace(token=token, flags=flags)
    batch = corrupt(example, 24, CONNECTIVES, relation="discourse")
    assert batch["label_weight"].tolist() == [1, 1, 0, 0, 0, 0, 0, 1, 0]
    assert batch["label"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    gone = [1, 2, 0, 0, 0, 0, 0, 1]
    for row, num in enumerate(gone):
        text = token[row, : example.length[row]].tolist()
        expected = [OF.bos_id, *text[:7], OF.eos_id, *text[7 + num :], OF.eos_id]
        assert batch["token"][row, : len(expected)].tolist() == expected
        assert batch["token_type"][row].sum() == len(expected) - 9
    objective = objectives.make_objective("sentences", relation="discourse")
    assert objective.num_answers(CONNECTIVES) == 2
    with pytest.raises(UserError, match=r"connective.*data.lexicon"):
        objective.num_answers(OF._replace(lexicon=None))


@pytest.mark.parametrize("relation", sentence_pairs.ANSWERS)
def test_pairs_are_those_of_relations(relation):
    rng = np.random.default_rng(0)
    example = texts(21, [21] * 300, OF)._replace(
        first_length=rng.integers(1, 21, 300).astype(np.int32),
        label=rng.integers(0, 3, 300).astype(np.int32),
    )
    batch = corrupt(example, 24, relation=relation)
    asked = sentence_pairs.ask(relation, example, keys(300))
    np.testing.assert_array_equal(batch["label"], asked.label)
    np.testing.assert_array_equal(batch["label_weight"], asked.label_weight)
    shown = np.where(asked.swapped, 21 - example.first_length, example.first_length)
    assert (batch["token_type"].sum(axis=1) == 21 - shown + 1).all()
    assert not batch["scored"].any()


@pytest.mark.parametrize(
    "fields",
    [
        {"relation": "x"},
        {"format": "stream"},
        {"pieces": 0},
        {"pieces": 7},
        {"short": -1.0},
    ],
)
def test_what_makes_no_sense_is_refused(fields):
    with pytest.raises(UserError, match="objective sentences"):
        objectives.make_objective("sentences", **fields)
