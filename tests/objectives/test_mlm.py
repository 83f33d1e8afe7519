"""mlm: which tokens are chosen, and what replaces them.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.contract.batch import WORD
from research.contract.errors import UserError
from research.program.setup import zero_batch
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

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


@pytest.mark.parametrize(("length", "count"), [(128, 20), (512, 77)])
def test_the_number_of_scored_positions_is_berts(length, count):
    assert objectives.make_objective("mlm").batch_spec(length)["scored"].shape == (
        count,
    )


@pytest.mark.parametrize(("fields", "most"), [({}, 20), ({"max_predictions": 8}, 8)])
def test_the_number_of_chosen_tokens_depends_on_the_rows_own_length(fields, most):
    lengths = np.arange(127)
    batch = corrupt(texts(126, lengths, VOCAB), 128, **fields)
    expected = [0] + [max(1, round(0.15 * (n + 2))) for n in lengths[1:]]
    np.testing.assert_array_equal(
        batch["weight"].sum(axis=1), np.minimum(expected, most)
    )
    assert batch["scored"].shape[1] == most


def test_every_position_is_chosen_equally_often():
    batch = corrupt(texts(60, [60] * 3000, VOCAB), 62)
    count = chosen(batch)[:, 1:-1].sum(axis=0)
    assert stats.chisquare(count).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("unit", ["token", "word"])
def test_eighty_ten_ten_token_by_token(unit):
    batch = corrupt(texts(126, [126] * 1000, VOCAB), 128, unit=unit)
    used = batch["weight"] > 0
    target, new = batch["target"][used], batch["token"][chosen(batch)]
    # A random token equals the original with probability 1 / len(ordinary_ids).
    unchanged = 0.1 / len(VOCAB.ordinary_ids)
    masked, same = new == VOCAB.mask_id, new == target
    count = [masked.sum(), same.sum(), (~masked & ~same).sum()]
    expected = np.array([0.8, 0.1 + unchanged, 0.1 - unchanged]) * len(new)
    assert stats.chisquare(count, expected).pvalue > SIGNIFICANCE
    # Whether adjacent tokens are masked is independent, also within a word.
    pair = used[:, 1:] & (np.diff(batch["scored"], axis=1) == 1)
    is_mask = np.zeros(used.shape)
    is_mask[used] = masked
    table = np.histogram2d(is_mask[:, :-1][pair], is_mask[:, 1:][pair], bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > SIGNIFICANCE


def test_random_tokens_are_uniform_whatever_the_text():
    example = texts(126, [126] * 1500, VOCAB)
    example = example._replace(token=np.full_like(example.token, VOCAB.ordinary_ids[0]))
    batch = corrupt(example, 128, mask_fraction=0.0, random_fraction=1.0)
    count = np.bincount(batch["token"][chosen(batch)], minlength=VOCAB.size)
    assert set(np.flatnonzero(count)) == set(VOCAB.ordinary_ids)
    assert stats.chisquare(count[VOCAB.ordinary_ids]).pvalue > SIGNIFICANCE


def test_words_are_chosen_whole():
    example = texts(126, [126, 60, 5] * 50, VOCAB, separators=0.05)
    scored = chosen(corrupt(example, 128, unit="word"))[:, 1:-1]
    here = np.arange(126) < example.length[:, None]
    inside = here & ~VOCAB.is_special[example.token]
    same_word = inside[:, :-1] & inside[:, 1:] & ((example.flags & WORD) == 0)[:, 1:]
    assert (scored[:, :-1] == scored[:, 1:])[same_word].all()
    full = scored[example.length == 126].sum(axis=1)
    assert (full <= 19).all() and full.mean() > 18.9  # of round(0.15 * 128)


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": 0.0},
        {"rate": 1.5},
        {"mask_fraction": 0.9, "random_fraction": 0.2},
        {"unit": "x"},
    ],
)
def test_illegal_fields_are_refused(fields):
    with pytest.raises(UserError, match="objective mlm"):
        objectives.make_objective("mlm", **fields)


def test_the_readout_has_a_layer_of_its_own():
    # BERT's (dense, activation, norm, bias); a causal model has none.
    def layers(name):
        objective, key = objectives.make_objective(name), jax.random.key(0)
        options = model_options(layers=1, width=8, heads=1, feedforward=8)
        network, batch = (
            networks.build(options, objective.needs(VOCAB), VOCAB),
            objective.batch_spec(16),
        )
        batch = zero_batch(batch, 2) | {"example": np.zeros(2, np.int32)}
        score = lambda net: objective.loss(net, batch, key)  # noqa: E731
        params = jax.eval_shape(lambda: networks.init(network, score, key))
        return set(networks.unbox(params).get("output", {}))

    assert layers("mlm") == {"dense", "norm", "bias"}
    assert layers("lm") == set()
