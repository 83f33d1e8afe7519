"""The adaptive softmax: a distribution over all words, and its gradient."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.networks.readouts.adaptive import AdaptiveReadout
from research.objectives.losses import softmax
from research.objectives.losses.cross_entropy import cross_entropy

CUTOFFS, SIZE, ROWS = (20, 50, 70), 77, 32
WIDTHS = (8, 4, 2, 1)
SIZES = (23, 30, 20, 7)  # the head also has an entry for each of the other clusters


def parts(batch=3, positions=11, seed=0):
    """Features, tables and biases of the head and of each tail."""
    random = np.random.default_rng(seed)
    normal = lambda *shape: np.float32(random.normal(size=shape))  # noqa: E731
    return [
        (
            normal(batch, positions, width),
            normal(ROWS, width),
            np.where(np.arange(ROWS) < size, normal(ROWS), np.float32(-1e9)),
        )
        for width, size in zip(WIDTHS, SIZES, strict=True)
    ]


def readout(arrays) -> AdaptiveReadout:
    head, *tails = (
        networks.Readout(*each, size) for each, size in zip(arrays, SIZES, strict=True)
    )
    return AdaptiveReadout(head, tuple(tails), CUTOFFS)


def log_probabilities(arrays) -> jax.Array:
    """[B, K, V], by the definition."""
    head, *tails = (
        jax.nn.log_softmax((x @ table.T + bias[None, None])[..., :size])
        for (x, table, bias), size in zip(arrays, SIZES, strict=True)
    )
    first = CUTOFFS[0]
    rest = [head[..., first + n, None] + tail for n, tail in enumerate(tails)]
    return jnp.concatenate([head[..., :first], *rest], axis=-1)


def test_the_probabilities_of_all_words_add_up_to_one():
    arrays = [(x[:1, :1].repeat(SIZE, 0), t, b) for x, t, b in parts()]
    target = jnp.arange(SIZE)[:, None]

    def total(weight, arrays):
        return cross_entropy(readout(arrays), target, weight)[0].total

    loss = jax.jit(jax.grad(total))(jnp.ones((SIZE, 1)), arrays)
    assert abs(float(jax.nn.logsumexp(-loss))) < 1e-5


@pytest.mark.parametrize("implementation", ["dense", "chunked", "fused"])
def test_value_gradient_and_accuracy_are_the_definitions(implementation, monkeypatch):
    arrays, random = parts(), np.random.default_rng(1)
    target = random.integers(0, SIZE, (3, 11))
    target[1] = random.integers(0, CUTOFFS[0], 11)  # a row without tails
    best = np.asarray(log_probabilities(arrays).argmax(axis=-1))
    target[0, :6] = best[0, :6]
    feature, table, _ = arrays[1]  # the likeliest words of a cluster, likely or not
    target[2, :6] = CUTOFFS[0] + (feature @ table.T)[2, :6, : SIZES[1]].argmax(axis=-1)
    weight = np.float32(random.random((3, 11)) * (random.random((3, 11)) < 0.8))
    # Several chunks a cluster, of which the last have no target in it.
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", 3 * ROWS * 2)

    def ours(arrays):
        term, correct = cross_entropy(
            readout(arrays), target, weight, implementation=implementation
        )
        return 3.0 * term.total, (correct, term.weight)

    def definition(arrays):
        log_p = log_probabilities(arrays)
        chosen = jnp.take_along_axis(log_p, target[..., None], axis=-1)[..., 0]
        return -3.0 * jnp.sum(weight * chosen)

    (value, (correct, total)), grads = jax.jit(jax.value_and_grad(ours, has_aux=True))(
        arrays
    )
    expected, expected_grads = jax.jit(jax.value_and_grad(definition))(arrays)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(total, weight.sum(), rtol=1e-6)
    scale = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(expected_grads))
    for x, y in zip(
        jax.tree.leaves(grads), jax.tree.leaves(expected_grads), strict=True
    ):
        np.testing.assert_allclose(x, y, atol=2e-6 * scale)

    logits = [
        np.asarray(x @ t.T + b)[..., :s]
        for (x, t, b), s in zip(arrays, SIZES, strict=True)
    ]
    cluster = np.searchsorted(CUTOFFS, target, side="right")
    entry = np.where(cluster > 0, CUTOFFS[0] - 1 + cluster, target)
    right = logits[0].argmax(axis=-1) == entry
    for number, tail in enumerate(logits[1:]):
        word = tail.argmax(axis=-1) + CUTOFFS[number]
        right &= (cluster != number + 1) | (word == target)
    assert right.any() and not right.all()
    np.testing.assert_allclose(correct, (weight * right).sum(), rtol=1e-6)


def test_it_is_the_full_softmax_where_clusters_have_their_words_mass():
    """With biases alone: the entry of a cluster is the logsumexp of its words."""
    logits = np.float32(np.random.default_rng(0).normal(size=SIZE))
    edges = [0, *CUTOFFS, SIZE]
    words = [logits[a:b] for a, b in pairwise(edges)]
    mass = [np.log(np.exp(each).sum()) for each in words[1:]]
    words[0] = np.append(words[0], np.float32(mass))
    bias = [np.pad(w, (0, ROWS - len(w)), constant_values=-1e9) for w in words]
    arrays = [(0 * x, t, b) for (x, t, _), b in zip(parts(), bias, strict=True)]
    target = np.arange(33).reshape(3, 11) * 2
    term, _ = jax.jit(
        lambda arrays: cross_entropy(readout(arrays), target, jnp.ones((3, 11)))
    )(arrays)
    full = jax.nn.log_softmax(jnp.asarray(logits))
    np.testing.assert_allclose(term.total, -full[target].sum(), rtol=1e-5)
