"""mlm: which tokens are chosen, and what replaces them.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import objectives
from research.contract.batch import SENTENCE
from research.objectives.mlm import mlm
from tests.testing.example_batches import keys, texts, vocab

SIGNIFICANCE = 1e-4
VOCAB = vocab()


def corrupt(example, length, **fields):
    objective = objectives.make_objective("mlm", **fields)
    return objective.corrupt(example, keys(len(example.length)), VOCAB, length)


def chosen(batch) -> np.ndarray:
    """[B, L] bool: the scored positions."""
    scored = np.zeros(batch["token"].shape, bool)
    row, slot = np.nonzero(batch["weight"])
    scored[row, batch["scored"][row, slot]] = True
    return scored


def test_a_chosen_token_may_be_predicted_from_the_token_before_it():
    example = texts(30, [30, 7, 1, 0], VOCAB, separators=0.1)
    own = corrupt(example, 32)
    previous = corrupt(example, 32, predict_at="previous")
    weight = own["weight"] > 0
    assert weight.any()
    np.testing.assert_array_equal(
        previous.pop("scored")[weight], own.pop("scored")[weight] - 1
    )
    jax.tree.map(np.testing.assert_array_equal, previous, own)


def test_unk_is_not_drawn_by_counts():
    """As no special is in DistilBERT's train.py (token_probs); others may draw it."""
    example = texts(30, [30] * 50, VOCAB)
    example.token[:, 5:20] = VOCAB.unk_id
    fields = {"rounding": "up", "rate": 0.3}
    batch = corrupt(example, 32, count_exponent=0.7, **fields)
    assert not (chosen(batch)[:, 1:-1] & (example.token == VOCAB.unk_id)).any()
    assert (batch["weight"].sum(axis=1) == 9).all()
    without = corrupt(example, 32, **fields)
    assert (chosen(without)[:, 1:-1] & (example.token == VOCAB.unk_id)).any()


class Starts(mlm.Objective):
    """Masks the first token of sentences alone."""

    def position_weight(self, text, vocab):
        return (text.flags & SENTENCE > 0).astype(float)


def test_a_subclass_chooses_tokens_by_their_position():
    example = texts(30, [30] * 20, VOCAB)
    example.flags[:, ::12] |= SENTENCE
    for rate, count in ((0.1, 3), (0.05, 2)):  # of 32 tokens; three are starts
        batch = Starts(rate=rate).corrupt(example, keys(20), VOCAB, 32)
        assert set(np.nonzero(chosen(batch)[:, 1:-1])[1]) <= {0, 12, 24}
        np.testing.assert_array_equal(batch["weight"].sum(axis=1), count)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(3, 70),
    st.lists(st.integers(0, 68), min_size=1, max_size=5),
    st.sampled_from([0.01, 0.15, 0.5, 0.95]),
    st.sampled_from(["token", "word"]),
)
def test_the_text_can_be_rebuilt_and_no_special_is_chosen(length, rows, rate, unit):
    example = texts(length - 2, np.minimum(rows, length - 2), VOCAB, separators=0.1)
    batch = corrupt(example, length, rate=rate, unit=unit)
    token, scored = batch["token"].copy(), chosen(batch)
    assert scored.sum() == batch["weight"].sum()  # positions are distinct
    token[scored] = batch["target"][batch["weight"] > 0]
    for row, count in enumerate(example.length):
        text = (
            [VOCAB.bos_id, *example.token[row, :count], VOCAB.eos_id] if count else []
        )
        np.testing.assert_array_equal(
            token[row], text + [VOCAB.pad_id] * (length - len(text))
        )
    assert not (VOCAB.is_special[token] & scored).any()


@pytest.mark.parametrize(("fields", "most"), [({}, 20), ({"max_predictions": 8}, 8)])
def test_the_number_of_chosen_tokens_depends_on_the_rows_own_length(fields, most):
    lengths = np.arange(127)
    batch = corrupt(texts(126, lengths, VOCAB), 128, **fields)
    expected = [0] + [max(1, round(0.15 * (n + 2))) for n in lengths[1:]]
    np.testing.assert_array_equal(
        batch["weight"].sum(axis=1), np.minimum(expected, most)
    )
    assert batch["scored"].shape[1] == most


def test_random_tokens_are_uniform_whatever_the_text():
    example = texts(126, [126] * 1500, VOCAB)
    example = example._replace(token=np.full_like(example.token, VOCAB.ordinary_ids[0]))
    batch = corrupt(example, 128, mask_fraction=0.0, random_fraction=1.0)
    count = np.bincount(batch["token"][chosen(batch)], minlength=VOCAB.size)
    assert set(np.flatnonzero(count)) == set(VOCAB.ordinary_ids)
    assert stats.chisquare(count[VOCAB.ordinary_ids]).pvalue > SIGNIFICANCE
