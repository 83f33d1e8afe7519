"""mlm: text formats, sentence tasks, span boundaries, shuffled trigrams."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research import networks, objectives
from research.contract.batch import NEVER, NEXT, OTHER_DOCUMENT
from research.contract.errors import UserError
from research.data.rows import TextSpec
from research.objectives.mlm import mlm
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab(size=96)
PAIR = {"format": "segment_pair"}


def pairs(num_rows, width, seed=0):
    """Texts of two spans, a few of them of one span or empty, half of them adjacent."""
    rng = np.random.default_rng(seed)
    length = rng.integers(2, width + 1, num_rows).astype(np.int32)
    length[::7] = width
    length[3::11] = 0
    first = rng.integers(1, np.maximum(length, 2)).astype(np.int32)
    first = np.where(length > 0, first, 0).astype(np.int32)
    label = rng.choice([NEXT, OTHER_DOCUMENT], num_rows).astype(np.int32)
    made = texts(width, length, VOCAB, separators=0.05, seed=seed)
    return made._replace(first_length=first, label=label)


def corrupt(example, length, **fields):
    objective = objectives.make_objective("mlm", **fields)
    return objective.corrupt(example, keys(len(example.length)), VOCAB, length)


def scored_positions(batch, slots=slice(None)) -> np.ndarray:
    """[B, L] bool: the scored positions of some slots."""
    scored = np.zeros(batch["token"].shape, bool)
    row, slot = np.nonzero(batch["weight"][:, slots])
    scored[row, batch["scored"][:, slots][row, slot]] = True
    return scored


NSP = TextSpec("pair", 125, other_document_rate=0.5, short_rate=0.1)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, TextSpec("stream", 126)),
        ({"format": "full_sentences"}, TextSpec("sentences", 126)),
        ({"format": "doc_sentences"}, TextSpec("passage", 126)),
        (PAIR, NSP),
        (PAIR | {"sentence_task": "nsp"}, NSP),
        (
            PAIR | {"sentence_task": "sop", "short_rate": 0.2},
            TextSpec("pair", 125, short_rate=0.2),
        ),
        (
            PAIR | {"sentence_task": "structural"},
            NSP.replace(other_document_rate=1 / 3),
        ),
        (
            {"format": "sentence_pair", "sentence_task": "nsp"},
            TextSpec("sentence_pair", 125, other_document_rate=0.5),
        ),
    ],
)
def test_the_text_that_each_format_takes(fields, expected):
    assert objectives.make_objective("mlm", **fields).text_spec(128) == expected


@settings(deadline=None, max_examples=30)
@given(
    st.integers(5, 60),
    st.sampled_from(mlm.SENTENCE_TASKS),
    st.sampled_from(["token", "word", "ngram", "span"]),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 2**32),
)
def test_both_spans_can_be_rebuilt(length, task, unit, shuffle_rate, seed):
    example = pairs(30, length - 3, seed)
    fields = {"sentence_task": task, "unit": unit, "shuffle_rate": shuffle_rate}
    batch = corrupt(example, length, **PAIR, **fields)
    token, scored = batch["token"].copy(), scored_positions(batch)
    assert scored.sum() == batch["weight"].sum()  # no position is scored twice
    row, slot = np.nonzero(batch["weight"])
    token[row, batch["scored"][row, slot]] = batch["target"][row, slot]
    assert not (VOCAB.is_special[token] & scored).any()
    swapped = np.zeros(30, bool)
    if task not in ("none", "nsp"):
        adjacent = (example.label == NEXT) & (example.first_length < example.length)
        swapped = (batch["label"] == 1) & adjacent
    for row in range(30):
        text = example.token[row, : example.length[row]]
        spans = [
            span
            for span in np.split(text, example.first_length[row : row + 1])
            if len(span)
        ]
        spans = spans[::-1] if swapped[row] else spans
        expected = [VOCAB.bos_id] * bool(spans)
        for span in spans:
            expected += [*span, VOCAB.eos_id]
        assert token[row, : len(expected)].tolist() == expected
        assert (token[row, len(expected) :] == VOCAB.pad_id).all()
        assert batch["token_type"][row].sum() == (len(spans[1]) + 1 if spans[1:] else 0)


def test_spans_cross_neither_specials_nor_segments():
    example = pairs(500, 60)
    fields = {"unit": "span", "draw_unit": "span", "boundary_targets": 9}
    batch = corrupt(example, 63, **fields, **PAIR)
    used = batch["weight"] > 0
    row, slot = np.nonzero(used)
    left, right = batch["left"][row, slot], batch["right"][row, slot]
    assert (
        batch["token_type"][row, left + 1] == batch["token_type"][row, right - 1]
    ).all()
    scored = scored_positions(batch)
    for r, first, last in {
        *zip(row.tolist(), left.tolist(), right.tolist(), strict=True)
    }:
        assert scored[r, first + 1 : last].all() and not scored[r, [first, last]].any()
    special = VOCAB.is_special[batch["token"]]
    beside = special[row, left] | special[row, right]
    offset = np.where(beside, NEVER, batch["scored"][row, slot] - left - 1)
    assert beside.any() and (batch["offset"][row, slot] == offset).all()


def test_the_class_token_is_the_last_slot():
    batch = corrupt(pairs(50, 61), 64, sentence_task="sop", **PAIR)
    assert batch["scored"].shape == (50, 10 + 1)
    assert not batch["scored"][:, -1].any() and not batch["weight"][:, -1].any()


class Net:
    """A network whose state at a position is the position; it records its inputs."""

    def __init__(self):
        self.inputs = {}

    def states(self, batch, scored):
        return scored[..., None].astype(jnp.float32)

    def readout(self, states):
        feature = jnp.ones((*states.shape[:2], 4))
        self.inputs["readout"] = states[..., 0]
        return networks.Readout(feature, jnp.ones((128, 4)), jnp.zeros(128), VOCAB.size)

    def boundary(self, left, right, offset):
        self.inputs["boundary"] = left[..., 0], right[..., 0], offset
        return self.readout(left)

    def head(self, name, state):
        self.inputs[name] = state[:, 0]
        return jnp.tile(jnp.array([1.0, 0.0, 0.0])[None], (len(state), 1))


def test_the_positions_and_weights_of_each_loss():
    fields = {"boundary_targets": 2, "sentence_task": "nsp"} | PAIR
    batch = corrupt(pairs(40, 61), 64, unit="span", **fields)
    net = Net()
    objective = objectives.make_objective("mlm", **fields)
    terms, carry = objective.loss(net, batch, None)
    left, right, offset = net.inputs["boundary"]
    for found, name in ((left, "left"), (right, "right"), (offset, "offset")):
        np.testing.assert_array_equal(found, batch[name])
    assert not net.inputs["nsp"].any()  # nsp is predicted at the class token
    assert carry == ()
    near = batch["weight"] * (batch["offset"] < 2)
    assert 0 < near.sum() < batch["weight"].sum()
    assert terms["mlm"].weight == batch["weight"].sum() and terms["mlm"].coef == 1
    assert terms["sbo"].weight == near.sum() and terms["sbo"].coef == 1
    assert terms["nsp"].weight == batch["label_weight"].sum()
    right = batch["label_weight"] * (batch["label"] == 0)
    assert terms["nsp_accuracy"].total == right.sum()
    expected = np.log(np.exp([1, 0, 0]).sum()) - np.array([1, 0])[batch["label"]]
    total = (expected * batch["label_weight"]).sum()
    np.testing.assert_allclose(terms["nsp"].total, total, rtol=1e-5)


def test_one_token_type_is_too_few_for_a_pair():
    objective = objectives.make_objective("mlm", **PAIR)
    for token_types in (0, 2, 5):
        options = model_options(token_types=token_types)
        networks.build(options, objective.needs(VOCAB), VOCAB)
    with pytest.raises(UserError, match=r"model.token_types is 1"):
        networks.build(model_options(token_types=1), objective.needs(VOCAB), VOCAB)
