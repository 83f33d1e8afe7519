"""recurrence: with mems, windows of a text have the loss of the whole text."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.batch import BACKWARD
from research.contract.errors import UserError
from research.data.order.contiguous_order import contiguous_position, reads_backward
from research.data.rows import TextSpec
from research.networks import Outputs
from research.objectives import make_objective
from research.objectives.layout.recurrence import carry_from_outputs, mems_from_carry
from tests.testing.example_batches import keys, rows, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab()
KEY = jax.random.key(0)
OPTIONS = model_options(
    layers=3,
    width=16,
    heads=2,
    feedforward=16,
    position="relative",
    token_types=3,
    scan_unroll=1,
)
XLNET = {"format": "pair", "direction": "both", "mem_len": 40}


@cache
def scorer(objective):
    """A function from a batch to its terms and carry, with random parameters."""
    net = networks.build(OPTIONS, objective.needs(VOCAB), VOCAB)

    def loss(batch):
        return lambda net: objective.loss(net, batch, KEY)

    @jax.jit
    def init(batch):
        return networks.unbox(networks.init(net, loss(batch), KEY))

    @jax.jit
    def run(params, batch):
        return networks.apply(net, params, loss(batch))

    def score(batch):
        shapes = jax.eval_shape(init, batch)
        if batch["carry"] is None:
            (_, carry) = jax.eval_shape(run, shapes, batch)
            zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), carry)
            batch = batch | {"carry": zeros}
        rng = np.random.default_rng(0)
        params = jax.tree.map(
            lambda leaf: (rng.normal(size=leaf.shape) / 4).astype(np.float32), shapes
        )
        terms, carry = run(params, batch)
        return {name: float(term.total) for name, term in terms.items()}, carry

    return score


def make_batch(objective, example, length, number, carry=None):
    """The batch of texts that are examples number, number + 1, ..."""
    count = len(example.length)
    batch = objective.corrupt(example, keys(count), VOCAB, length)
    order = np.arange(number, number + count, dtype=np.int32)
    return jax.tree.map(jnp.asarray, batch | {"example": order, "carry": carry})


def windows(text, width, stride):
    """The texts that begin every `stride` tokens of one long text [1, R]."""
    begins = range(0, text.token.shape[1] - width + 1, stride)
    return [
        text._replace(
            token=text.token[:, at : at + width],
            flags=text.flags[:, at : at + width],
            length=np.array([width], np.int32),
        )
        for at in begins
    ]


def test_windows_with_mems_have_the_loss_of_the_whole_text():
    mem_len = 16  # as far back as any window reaches
    text = texts(25, [25], VOCAB, seed=3)
    objective, total, carry = make_objective("lm", mem_len=mem_len), 0.0, None
    whole, _ = scorer(objective)(make_batch(objective, text, 24, 0))
    for number, window in enumerate(windows(text, 9, 8)):
        terms, carry = scorer(objective)(
            make_batch(objective, window, 8, number, carry)
        )
        total += terms["lm"]
        assert carry["state"].shape == (1, 3, mem_len, 16)
    assert total == pytest.approx(whole["lm"], rel=1e-5)
    alone = sum(
        scorer(objective)(make_batch(objective, window, 8, 0))[0]["lm"]
        for window in windows(text, 9, 8)
    )
    assert abs(alone - total) > 1e-2


def test_each_token_but_the_first_is_a_target_once():
    text = texts(25, [25], VOCAB)
    objective = make_objective("lm", mem_len=8)
    assert objective.text_spec(8) == TextSpec("stream", 9, stride=8, contiguous=True)
    batches = [make_batch(objective, window, 8, 0) for window in windows(text, 9, 8)]
    target = np.concatenate([batch["target"][0] for batch in batches])
    np.testing.assert_array_equal(target, text.token[0, 1:])
    token = np.concatenate([batch["token"][0] for batch in batches])
    np.testing.assert_array_equal(token, text.token[0, :-1])
    short = make_batch(objective, texts(9, [5, 1, 0], VOCAB), 8, 0)
    np.testing.assert_array_equal(short["weight"].sum(axis=1), [4, 0, 0])


FIELDS = [("lm", {"mem_len": 12}), ("plm", {"mem_len": 12}), ("plm", XLNET)]


@pytest.mark.parametrize(("name", "fields"), FIELDS)
def test_a_row_has_mems_only_of_the_text_before_it(name, fields):
    objective, length = make_objective(name, **fields), 24
    raw = objective.text_spec(length).length
    label = {"label": np.zeros(1, np.int32)}
    first, second = (texts(raw, [raw], VOCAB, seed=s)._replace(**label) for s in (1, 2))
    score = scorer(objective)
    _, carry = score(make_batch(objective, first, length, 7))
    assert carry["next"] == 8
    alone, _ = score(make_batch(objective, second, length, 8))
    after, _ = score(make_batch(objective, second, length, 8, carry))
    assert abs(after[name] - alone[name]) > 1e-3
    for number in (0, 7, 9):  # of another stream, or of another epoch
        same, _ = score(make_batch(objective, second, length, number, carry))
        assert same == alone
    zeros = jax.tree.map(jnp.zeros_like, carry)
    assert score(make_batch(objective, second, length, 0, zeros))[0] == alone
    short = first._replace(length=np.array([length - 5], np.int32))
    assert (
        score(make_batch(objective, short, length, 7))[1]["next"] == -1
    )  # the end of its shard


def test_a_backward_row_continues_with_the_text_before_it():
    objective, length = make_objective("plm", **XLNET), 24
    raw = objective.text_spec(length).length
    label = np.array([0, BACKWARD], np.int32)
    example = texts(raw, [raw, raw], VOCAB)._replace(label=label)
    batch = make_batch(objective, example, length, 7)
    assert (
        objective.text_spec(length).reverse and objective.text_spec(length).contiguous
    )
    index = np.arange(length)
    np.testing.assert_array_equal(batch["position"][:, :length], [index, index[::-1]])
    carry = scorer(objective)(batch)[1] | {"segment": jnp.ones((2, 4))}
    for numbers, continued in (([8, 7], True), ([7, 8], False), ([9, 6], False)):
        following = batch | {"example": jnp.array(numbers), "carry": carry}
        mems = mems_from_carry(None, following, 4)
        assert (mems["segment"] == continued).all()


@pytest.mark.parametrize("num", range(4, 16))
@pytest.mark.parametrize("num_rows", [1, 2, 3, 4])
def test_rows_that_change_direction_have_no_mems_of_the_epoch_before(num_rows, num):
    row, carry, before = np.arange(num_rows), None, -1
    for step in range(3 * (num // num_rows)):
        steps = np.full(num_rows, step)
        epoch, example = contiguous_position(
            steps, row, num_rows=num_rows, num=num, reverse=True
        )
        backward = reads_backward(row, epoch)[:, None]
        position = np.where(backward, np.arange(4)[::-1], np.arange(4))
        segment = np.ones((num_rows, 4), np.int32)
        batch = {"example": example, "position": position, "segment": segment}
        if carry:
            mems = mems_from_carry(None, batch | {"carry": carry}, 4)
            assert (mems["segment"] == (epoch[0] == before)).all()
        carry, before = (
            carry_from_outputs(batch, Outputs(None, {"segment": segment}), 4),
            epoch[0],
        )


def test_mems_are_of_all_parts_but_the_last():
    # The stride is half a row; mems are of the first half of the row before.
    objective, length = make_objective("plm", mem_len=12), 24
    assert objective.text_spec(length).stride == 12
    example = texts(22, [22], VOCAB)
    score = scorer(objective)
    _, carry = score(make_batch(objective, example, length, 0))
    assert carry["segment"].all() and carry["state"].shape[2] == 12
    ordinary = VOCAB.ordinary_ids
    for index, same in ((3, False), (11, False), (12, True), (20, True)):
        token = example.token.copy()
        token[0, index] = ordinary[token[0, index] % len(ordinary)]
        _, other = score(
            make_batch(objective, example._replace(token=token), length, 0)
        )
        assert np.array_equal(other["state"], carry["state"]) == same
    # The first block's inputs are the embeddings of the tokens, in order.
    wide = make_objective("plm", mem_len=30)
    _, carry = scorer(wide)(make_batch(wide, example, length, 0))
    np.testing.assert_array_equal(carry["segment"][0], np.arange(30) >= 18)
    token = np.array(example.token[0, :12])
    vector = np.asarray(carry["state"])[0, 0, 18:]
    for one in range(12):
        for other in range(one):
            equal = np.array_equal(vector[one], vector[other])
            assert equal == (token[one] == token[other])


def test_each_row_has_its_own_mems():
    objective, length = make_objective("lm", mem_len=6), 8
    example = texts(9, [9, 9, 9], VOCAB)
    score = scorer(objective)
    batch = make_batch(objective, example, length, 0)
    carry = score(batch)[1]
    for row in range(3):
        one = make_batch(objective, rows(example, slice(row, row + 1)), length, row)
        np.testing.assert_allclose(
            score(one)[1]["state"][0], carry["state"][row], atol=1e-6
        )


def test_mems_need_relative_positions():
    objective = make_objective("lm", mem_len=8)
    small = model_options(layers=1, width=8, heads=1, feedforward=8)
    with pytest.raises(UserError, match=r"model\.position=relative"):
        networks.build(small, objective.needs(VOCAB), VOCAB)
