"""plm's loss is the permuted likelihood: its mean over all orders, enumerated."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from research import networks, objectives
from research.data import counter_rng
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab(size=32)
KEY = jax.random.key(0)
TEXT = 5
"""Tokens of the text, all of them targets; the order includes eos and bos."""

NUM_POSITIONS = TEXT + 2
ORDERS = np.array(list(itertools.permutations(range(NUM_POSITIONS))), np.int32)
OPTIONS = model_options(
    layers=1, width=8, heads=1, feedforward=8, max_length=NUM_POSITIONS, bias=False
)


@pytest.fixture(scope="module")
def plm_loss():
    """(function from orders to their losses, random parameters, the text)."""
    objective = objectives.make_objective(
        "plm", tokens_per_target=1, num_permutations=1
    )
    net = networks.build(OPTIONS, objective.needs(VOCAB), VOCAB)
    example = texts(TEXT, [TEXT], VOCAB)

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
            arrays = objective.corrupt(many, keys(len(order)), VOCAB, NUM_POSITIONS)
        assert (arrays["weight"].sum(axis=1) == TEXT).all()
        return jax.tree.map(jnp.asarray, arrays)

    shapes = jax.eval_shape(
        lambda: networks.unbox(networks.init(net, loss(batch(ORDERS[:1])), KEY))
    )
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 2, shapes
    )

    @jax.jit
    def each(batch):
        one = lambda row: jax.tree.map(lambda leaf: leaf[None], row)  # noqa: E731
        return jax.vmap(lambda row: networks.apply(net, params, loss(one(row))))(batch)

    return lambda order: np.asarray(each(batch(order))), params, example.token[0]


def layer_norm(x, p):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-6) * p["scale"]


def log_p(params, text, target, known) -> float:
    """log p(token at `target` | the tokens at the positions `known`), in NumPy.

    One pre-norm block, in which the query vector at the target's position attends to
    the known tokens.
    """
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    table, position = p["token"]["embedding"], p["embeddings"]["position"]
    tokens = [*text, VOCAB.eos_id, VOCAB.bos_id]
    block = jax.tree.map(lambda leaf: leaf[0], p["stack"]["blocks"])
    attention = {name: leaf["kernel"] for name, leaf in block["attention"].items()}
    x = p["query_embedding"]["vector"][0] + position[target]
    if known:
        source = np.array([table[tokens[n]] + position[n] for n in known])
        source = layer_norm(source, block["attention_norm"])
        query = layer_norm(x, block["attention_norm"]) @ attention["query"]
        score = source @ attention["key"] @ query / math.sqrt(len(query))
        attended = softmax(score) @ (source @ attention["value"])
        x = x + attended @ attention["out"]
    y = layer_norm(x, block["feedforward_norm"]) @ block["feedforward"]["in"]["kernel"]
    gelu = 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
    x = x + gelu @ block["feedforward"]["out"]["kernel"]
    logits = layer_norm(x, p["stack"]["norm"]) @ table[: VOCAB.size].T
    return logits[tokens[target]] - logsumexp(logits)


def test_the_mean_over_all_orders_is_the_permuted_likelihood(plm_loss):
    # In |S|! (6 - |S|)! of the 7! orders, a target follows exactly the set S.
    losses, params, text = plm_loss
    expected = 0.0
    for target in range(TEXT):
        others = [n for n in range(NUM_POSITIONS) if n != target]
        for size in range(NUM_POSITIONS):
            odds = math.factorial(size) * math.factorial(NUM_POSITIONS - 1 - size)
            for known in itertools.combinations(others, size):
                expected -= odds * log_p(params, text, target, known)
    expected /= math.factorial(NUM_POSITIONS)
    assert losses(ORDERS).mean() == pytest.approx(expected, rel=1e-5)


def test_each_order_has_the_likelihood_of_its_own_factors(plm_loss):
    losses, params, text = plm_loss
    some = ORDERS[:: len(ORDERS) // 40]
    expected = [
        -sum(
            log_p(params, text, target, np.flatnonzero(order < order[target]).tolist())
            for target in range(TEXT)
        )
        for order in some
    ]
    np.testing.assert_allclose(losses(some), expected, rtol=1e-5)
    assert np.ptp(expected) > 0.5


def test_drawn_orders_have_the_same_mean(plm_loss):
    # The orders that the objective draws estimate the mean without bias.
    losses, _, _ = plm_loss
    enumerated = losses(ORDERS)
    drawn = losses(counter_rng.permutation(keys(len(ORDERS)), "order", NUM_POSITIONS))
    error = drawn.std() / math.sqrt(len(drawn))
    assert abs(drawn.mean() - enumerated.mean()) < 4 * error  # 1 seed in 16,000
