"""Memories: a text read in windows is that text read at once; nothing else is known."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models, objectives
from research.batch import BACKWARD
from research.errors import UserError
from tests.testing.example_batches import keys, rows, texts, vocab
from tests.testing.model_options import model_options

OF = vocab()
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
XLNET = {"format": "pair", "direction": "both", "memory": 40}


def load(name, **fields):
    return objectives.make_objective(name, **fields)


@cache
def scorer(objective):
    """(batch) -> terms, carry; under parameters of any values."""
    net = objective.network(OPTIONS, OF)

    def loss(batch):
        return lambda net: objective.loss(net, batch, KEY)

    @jax.jit
    def init(batch):
        return models.unbox(models.init(net, loss(batch), KEY))

    @jax.jit
    def run(params, batch):
        return models.apply(net, params, loss(batch))

    def score(batch):
        shapes = jax.eval_shape(init, batch)
        if batch["carry"] is None:
            (_, carry) = jax.eval_shape(run, shapes, batch)
            nothing = jax.tree.map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), carry
            )
            batch = batch | {"carry": nothing}
        rng = np.random.default_rng(0)
        params = jax.tree.map(
            lambda leaf: (rng.normal(size=leaf.shape) / 4).astype(np.float32), shapes
        )
        terms, carry = run(params, batch)
        return {name: float(term.total) for name, term in terms.items()}, carry

    return score


def made(objective, example, length, number, carry=None):
    """The batch of these texts as examples number, number + 1, ..."""
    count = len(example.length)
    batch = objective.corrupt(example, keys(count), OF, length)
    order = np.arange(number, number + count, dtype=np.int32)
    return jax.tree.map(jnp.asarray, batch | {"example": order, "carry": carry})


def windows(text, width, stride):
    """The texts that begin every `stride` tokens of one long text [1, R]."""
    begins = range(0, text.token.shape[1] - width + 1, stride)
    one = [
        text._replace(
            token=text.token[:, at : at + width],
            flags=text.flags[:, at : at + width],
            length=np.array([width], np.int32),
        )
        for at in begins
    ]
    return one


def test_windows_with_a_memory_are_the_text_read_at_once():
    memory = 16  # as far back as any window reaches
    text = texts(25, [25], OF, seed=3)
    objective, total, carry = load("lm", memory=memory), 0.0, None
    whole, _ = scorer(objective)(made(objective, text, 24, 0))
    for number, window in enumerate(windows(text, 9, 8)):
        terms, carry = scorer(objective)(made(objective, window, 8, number, carry))
        total += terms["lm"]
        assert carry["state"].shape == (1, 3, memory, 16)
    assert total == pytest.approx(whole["lm"], rel=1e-5)
    alone = sum(
        scorer(objective)(made(objective, window, 8, 0))[0]["lm"]
        for window in windows(text, 9, 8)
    )
    assert abs(alone - total) > 1e-2


def test_each_token_but_the_first_is_a_target_once():
    text = texts(25, [25], OF)
    objective = load("lm", memory=8)
    assert (
        objective.text_spec(8)[:2] == ("stream", 9)
        and objective.text_spec(8).stride == 8
    )
    batches = [made(objective, window, 8, 0) for window in windows(text, 9, 8)]
    target = np.concatenate([batch["target"][0] for batch in batches])
    np.testing.assert_array_equal(target, text.token[0, 1:])
    token = np.concatenate([batch["token"][0] for batch in batches])
    np.testing.assert_array_equal(token, text.token[0, :-1])
    short = made(objective, texts(9, [5, 1, 0], OF), 8, 0)
    np.testing.assert_array_equal(short["weight"].sum(axis=1), [4, 0, 0])


FIELDS = [("lm", {"memory": 12}), ("plm", {"memory": 12}), ("plm", XLNET)]


@pytest.mark.parametrize(("name", "fields"), FIELDS)
def test_a_row_remembers_only_text_that_runs_on(name, fields):
    objective, length = load(name, **fields), 24
    raw = objective.text_spec(length).length
    label = {"label": np.zeros(1, np.int32)}
    first, second = (texts(raw, [raw], OF, seed=s)._replace(**label) for s in (1, 2))
    score = scorer(objective)
    _, carry = score(made(objective, first, length, 7))
    assert carry["next"] == 8
    alone, _ = score(made(objective, second, length, 8))
    after, _ = score(made(objective, second, length, 8, carry))
    assert abs(after[name] - alone[name]) > 1e-3
    for number in (0, 7, 9):  # another stream, or another epoch
        same, _ = score(made(objective, second, length, number, carry))
        assert same == alone
    nothing = jax.tree.map(jnp.zeros_like, carry)
    assert score(made(objective, second, length, 0, nothing))[0] == alone
    short = first._replace(length=np.array([length - 5], np.int32))
    assert score(made(objective, short, length, 7))[1]["next"] == -1  # its shard ends


def test_a_row_that_runs_backwards_goes_on_with_the_text_before_it():
    objective, length = load("plm", **XLNET), 24
    raw = objective.text_spec(length).length
    label = np.array([0, BACKWARD], np.int32)
    example = texts(raw, [raw, raw], OF)._replace(label=label)
    batch = made(objective, example, length, 7)
    assert (
        objective.text_spec(length).reverse and objective.text_spec(length).contiguous
    )
    place = np.arange(length)
    np.testing.assert_array_equal(batch["position"][:, :length], [place, place[::-1]])
    carry = scorer(objective)(batch)[1]
    assert list(carry["next"]) == [8, 7]


def test_the_parts_but_the_last_are_remembered():
    # A stride is half a row; what a row remembers is the first half that it has read.
    objective, length = load("plm", memory=12), 24
    assert objective.text_spec(length).stride == 12
    example = texts(22, [22], OF)
    score = scorer(objective)
    _, carry = score(made(objective, example, length, 0))
    assert carry["segment"].all() and carry["state"].shape[2] == 12
    for place, kept in ((3, False), (11, False), (12, True), (20, True)):
        token = example.token.copy()
        token[0, place] = OF.ordinary_ids[token[0, place] % len(OF.ordinary_ids)]
        _, other = score(made(objective, example._replace(token=token), length, 0))
        assert np.array_equal(other["state"], carry["state"]) == kept
    # What the first block has read are the tokens' own vectors, in their order.
    wide = load("plm", memory=30)
    _, carry = scorer(wide)(made(wide, example, length, 0))
    np.testing.assert_array_equal(carry["segment"][0], np.arange(30) >= 18)
    twice = np.array(example.token[0, :12])
    vector = np.asarray(carry["state"])[0, 0, 18:]
    for one in range(12):
        for other in range(one):
            equal = np.array_equal(vector[one], vector[other])
            assert equal == (twice[one] == twice[other])


def test_rows_of_a_batch_remember_for_themselves():
    objective, length = load("lm", memory=6), 8
    example = texts(9, [9, 9, 9], OF)
    score = scorer(objective)
    batch = made(objective, example, length, 0)
    carry = score(batch)[1]
    for row in range(3):
        one = made(objective, rows(example, slice(row, row + 1)), length, row)
        np.testing.assert_allclose(
            score(one)[1]["state"][0], carry["state"][row], atol=1e-6
        )


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("lm", {"memory": -1}, "at least 0 places"),
        ("lm", {"memory": 8, "direction": "both"}, "direction forward"),
        ("lm", {"memory": 8, "prefix": "random"}, "prefix none"),
        ("lm", {"memory": 8, "documents": "apart"}, "documents joined"),
        ("plm", {"memory": 8, "parts": 1}, "at least 2"),
        ("plm", {"memory": -8}, "at least 0 places"),
    ],
)
def test_a_memory_that_cannot_be_is_an_error(name, fields, said):
    with pytest.raises(UserError, match=said):
        load(name, **fields)


def test_a_memory_needs_relative_positions():
    objective = load("lm", memory=8)
    small = model_options(layers=1, width=8, heads=1, feedforward=8)
    net = objective.network(small, OF)
    batch = made(objective, texts(9, [9], OF), 8, 0)
    with pytest.raises(UserError, match=r"model\.position=relative"):
        models.init(net, lambda net: objective.loss(net, batch, KEY), KEY)
