"""plm's loss is the permuted likelihood: its mean over all orders, by enumeration."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from research import models, objectives
from research.data import counter_rng
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

OF = vocab(size=32)
KEY = jax.random.key(0)
TEXT = 5
"""Tokens of the text, all of them targets; eos and bos are part of the order, too."""

PLACES = TEXT + 2
ORDERS = np.array(list(itertools.permutations(range(PLACES))), np.int32)
OPTIONS = model_options(
    layers=1, width=8, heads=1, feedforward=8, max_length=PLACES, bias=False
)


@pytest.fixture(scope="module")
def toy():
    """(loss of a batch of any orders, parameters of any values, the text)."""
    objective = objectives.make_objective("plm", one_in=1, parts=1)
    net = objective.network(OPTIONS, OF)
    example = texts(TEXT, [TEXT], OF)

    def loss(batch):
        return lambda net: objective.loss(net, batch, KEY)[0]["plm"].total

    def batch(order):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(counter_rng, "permutation", lambda key, role, n: order[:, :n])
            many = example._replace(
                **{
                    name: np.repeat(array, len(order), axis=0)
                    for name, array in example._asdict().items()
                }
            )
            made = objective.corrupt(many, keys(len(order)), OF, PLACES)
        assert (made["weight"].sum(axis=1) == TEXT).all()
        return jax.tree.map(jnp.asarray, made)

    shapes = jax.eval_shape(
        lambda: models.unbox(models.init(net, loss(batch(ORDERS[:1])), KEY))
    )
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 2, shapes
    )

    @jax.jit
    def each(batch):
        one = lambda row: jax.tree.map(lambda leaf: leaf[None], row)  # noqa: E731
        return jax.vmap(lambda row: models.apply(net, params, loss(one(row))))(batch)

    return lambda order: np.asarray(each(batch(order))), params, example.token[0]


def normed(x, p):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-6) * p["scale"]


def log_p(params, text, place, known) -> float:
    """log p(text at `place` | the tokens at the places `known`), written out in NumPy.

    One pre-norm block, in which a mask token at the place attends to what is known.
    """
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    table, position = p["token"]["rows"], p["place"]["position"]
    tokens = [*text, OF.eos_id, OF.bos_id]
    block = jax.tree.map(lambda leaf: leaf[0], p["stack"]["blocks"])
    attention = {name: leaf["kernel"] for name, leaf in block["attention"].items()}
    x = table[OF.mask_id] + position[place]
    if known:
        source = np.array([table[tokens[n]] + position[n] for n in known])
        source = normed(source, block["attention_norm"])
        query = normed(x, block["attention_norm"]) @ attention["query"]
        score = source @ attention["key"] @ query / math.sqrt(len(query))
        mixed = softmax(score) @ (source @ attention["value"])
        x = x + mixed @ attention["out"]
    y = normed(x, block["feedforward_norm"]) @ block["feedforward"]["in"]["kernel"]
    gelu = 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
    x = x + gelu @ block["feedforward"]["out"]["kernel"]
    logits = normed(x, p["stack"]["norm"]) @ table[: OF.size].T
    return logits[tokens[place]] - logsumexp(logits)


def test_the_mean_over_all_orders_is_the_permuted_likelihood(toy):
    # Of 7! orders a target follows each set S of the others in |S|! (6 - |S|)! ones.
    losses, params, text = toy
    expected = 0.0
    for place in range(TEXT):
        others = [n for n in range(PLACES) if n != place]
        for size in range(PLACES):
            odds = math.factorial(size) * math.factorial(PLACES - 1 - size)
            for known in itertools.combinations(others, size):
                expected -= odds * log_p(params, text, place, known)
    expected /= math.factorial(PLACES)
    assert losses(ORDERS).mean() == pytest.approx(expected, rel=1e-5)


def test_each_order_has_the_likelihood_of_its_own_factors(toy):
    losses, params, text = toy
    some = ORDERS[:: len(ORDERS) // 40]
    expected = [
        -sum(
            log_p(params, text, place, np.flatnonzero(order < order[place]).tolist())
            for place in range(TEXT)
        )
        for order in some
    ]
    np.testing.assert_allclose(losses(some), expected, rtol=1e-5)
    assert np.ptp(expected) > 0.5


def test_its_own_orders_have_the_same_mean(toy):
    # The objective's own orders estimate that mean without bias.
    losses, _, _ = toy
    every = losses(ORDERS)
    drawn = losses(counter_rng.permutation(keys(len(ORDERS)), "order", PLACES))
    error = drawn.std() / math.sqrt(len(drawn))
    assert abs(drawn.mean() - every.mean()) < 4 * error  # 1 seed in 16,000
