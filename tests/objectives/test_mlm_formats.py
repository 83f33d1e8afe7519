"""mlm beyond BERT's first recipe: formats, sentence losses, boundaries, trigrams."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research import models, objectives
from research.batch import NEXT, OTHER_DOCUMENT
from research.errors import UserError
from research.objectives import mlm
from tests.testing.example_batches import keys, texts, vocab

OF = vocab(size=96)
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
    made = texts(width, length, OF, separators=0.05, seed=seed)
    return made._replace(first_length=first, label=label)


def corrupt(example, length, **fields):
    objective = objectives.make_objective("mlm", **fields)
    return objective.corrupt(example, keys(len(example.length)), OF, length)


def hit(batch, slots=slice(None)) -> np.ndarray:
    """[B, L] bool: the scored places of some slots."""
    found = np.zeros(batch["token"].shape, bool)
    row, slot = np.nonzero(batch["weight"][:, slots])
    found[row, batch["scored"][:, slots][row, slot]] = True
    return found


@pytest.mark.parametrize(
    ("fields", "reads"),
    [
        ({}, ("stream", 126, 0.0, 0.0)),
        ({"format": "full_sentences"}, ("sentences", 126, 0.0, 0.0)),
        ({"format": "doc_sentences"}, ("passage", 126, 0.0, 0.0)),
        (PAIR, ("pair", 125, 0.5, 0.1)),
        (PAIR | {"sentence": "nsp"}, ("pair", 125, 0.5, 0.1)),
        (PAIR | {"sentence": "sop", "short": 0.2}, ("pair", 125, 0.0, 0.2)),
        (PAIR | {"sentence": "structural"}, ("pair", 125, 1 / 3, 0.1)),
        (
            {"format": "sentence_pair", "sentence": "nsp"},
            ("sentence_pair", 125, 0.5, 0.0),
        ),
    ],
)
def test_what_each_format_reads(fields, reads):
    read = objectives.make_objective("mlm", **fields).text_spec(128)
    assert (read.unit, read.length, read.other_document_rate, read.short_rate) == reads


@settings(deadline=None, max_examples=30)
@given(
    st.integers(5, 60),
    st.sampled_from(mlm.SENTENCES),
    st.sampled_from(["token", "word", "ngram", "span"]),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 2**32),
)
def test_both_spans_can_be_rebuilt(length, sentence, unit, shuffle, seed):
    example = pairs(30, length - 3, seed)
    fields = PAIR | {"sentence": sentence, "unit": unit, "shuffle": shuffle}
    batch = corrupt(example, length, **fields)
    token, places = batch["token"].copy(), hit(batch)
    assert places.sum() == batch["weight"].sum()  # no place is scored twice
    row, slot = np.nonzero(batch["weight"])
    token[row, batch["scored"][row, slot]] = batch["target"][row, slot]
    assert not (OF.is_special[token] & places).any()
    swaps = np.zeros(30, bool)
    if sentence != "none":
        adjacent = (example.label == NEXT) & (example.first_length < example.length)
        if sentence != "nsp":
            swaps = (batch["label"] == 1) & adjacent
    for row in range(30):
        text = example.token[row, : example.length[row]]
        spans = [
            span
            for span in np.split(text, example.first_length[row : row + 1])
            if len(span)
        ]
        spans = spans[::-1] if swaps[row] else spans
        expected = [OF.bos_id] * bool(spans)
        for span in spans:
            expected += [*span, OF.eos_id]
        assert token[row, : len(expected)].tolist() == expected
        assert (token[row, len(expected) :] == OF.pad_id).all()
        assert batch["token_type"][row].sum() == (len(spans[1]) + 1 if spans[1:] else 0)


def test_spans_cross_neither_specials_nor_segments():
    example = pairs(500, 60)
    batch = corrupt(example, 63, unit="span", replace="span", boundary=9, **PAIR)
    used = batch["weight"] > 0
    row, slot = np.nonzero(used)
    left, right = batch["left"][row, slot], batch["right"][row, slot]
    assert (
        batch["token_type"][row, left + 1] == batch["token_type"][row, right - 1]
    ).all()
    places = hit(batch)
    for r, first, last in {
        *zip(row.tolist(), left.tolist(), right.tolist(), strict=True)
    }:
        assert places[r, first + 1 : last].all() and not places[r, [first, last]].any()
    assert (batch["offset"][row, slot] == batch["scored"][row, slot] - left - 1).all()


def test_the_class_token_is_the_last_slot():
    batch = corrupt(pairs(50, 61), 64, sentence="sop", **PAIR)
    assert batch["scored"].shape == (50, 10 + 1)
    assert not batch["scored"][:, -1].any() and not batch["weight"][:, -1].any()


def test_trigrams_are_five_per_cent_of_tokens_that_are_not_hidden():
    example = texts(126, [126, 60, 0] * 100, OF)
    plain, moved = corrupt(example, 128), corrupt(example, 128, shuffle=0.05)
    for name in ("scored", "target", "weight"):
        np.testing.assert_array_equal(moved[name][:, :20], plain[name])
    trigrams = hit(moved, slice(20, None))
    assert not (trigrams & hit(plain)).any()
    assert trigrams.sum(axis=1).tolist() == [6, 3, 0] * 100
    np.testing.assert_array_equal(moved["token"][~trigrams], plain["token"][~trigrams])
    assert set(np.unique(moved["weight"])) == {0.0, 1.0}


class Net:
    """A network whose state at a place is the place's number."""

    def __init__(self):
        self.asked = {}

    def states(self, batch, scored):
        return scored[..., None].astype(jnp.float32)

    def readout(self, states):
        feature = jnp.ones((*states.shape[:2], 4))
        self.asked["readout"] = states[..., 0]
        return models.Readout(feature, jnp.ones((128, 4)), jnp.zeros(128), OF.size)

    def boundary(self, left, right, offset):
        self.asked["boundary"] = left[..., 0], right[..., 0], offset
        return self.readout(left)

    def head(self, name, state):
        self.asked[name] = state[:, 0]
        return jnp.tile(jnp.array([1.0, 0.0, 0.0])[None], (len(state), 1))


def test_what_a_loss_reads():
    batch = corrupt(pairs(40, 61), 64, unit="span", boundary=2, sentence="nsp", **PAIR)
    net = Net()
    objective = objectives.make_objective("mlm", boundary=2, sentence="nsp", **PAIR)
    terms, carry = objective.loss(net, batch, None)
    left, right, offset = net.asked["boundary"]
    for found, name in ((left, "left"), (right, "right"), (offset, "offset")):
        np.testing.assert_array_equal(found, batch[name])
    assert not net.asked["nsp"].any() and carry == ()  # read at the class token
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


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"sentence": "nsp"}, "segment_pair or sentence_pair"),
        ({"sentence": "distance", **PAIR}, "none, nsp, sop"),
        ({"format": "pairs"}, "stream, full_sentences"),
        ({"replace": "word"}, "token or span"),
        ({"draw": "batch"}, "ordinary or all"),
        ({"rounding": "down"}, "nearest, up or random"),
        ({"shuffle": 0.9}, "shares"),
        ({"short": 1.5}, "short"),
        ({"longest": -1}, "at least 0"),
        ({"shuffle": 0.1, "boundary": 3}, "boundary"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, says):
    with pytest.raises(UserError, match=says):
        objectives.make_objective("mlm", **fields)


def test_one_kind_is_too_few_for_a_pair():
    objective = objectives.make_objective("mlm", **PAIR)
    for kinds in (0, 2, 5):
        objective.network(SimpleNamespace(token_types=kinds), OF)
    with pytest.raises(UserError, match=r"model.token_types is 1"):
        objective.network(SimpleNamespace(token_types=1), OF)
