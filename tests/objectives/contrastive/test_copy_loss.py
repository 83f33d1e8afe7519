"""copy_loss: the gated mixture of copy and softmax, against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.objectives.contrastive.copy_loss import copy_cross_entropy
from research.objectives.losses import cross_entropy

SIZE, ROWS = 100, 128


def make_inputs(batch=3, length=11, width=5):
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    bias = np.where(np.arange(ROWS) < SIZE, normal(ROWS), -1e9).astype(np.float32)
    arrays = (normal(batch, length, width), normal(ROWS, width), bias)
    gate = 2 * normal(batch, length)
    token = rng.integers(0, SIZE, (batch, length))
    target = np.where(rng.random(token.shape) < 0.5, token, (token + 7) % SIZE)
    weight = rng.random((batch, length)) * (rng.random((batch, length)) < 0.7)
    return arrays, gate, token, target, weight.astype(np.float32)


def distribution(arrays, gate, token, lib=np):
    """[B, K, V]: the probability of every token, by definition."""
    feature, table, bias = arrays
    logits = feature @ table.T + bias.reshape(1, 1, -1)
    e = lib.exp(logits - logits.max(axis=-1, keepdims=True))
    softmax = e / e.sum(axis=-1, keepdims=True)
    copy = 1 / (1 + lib.exp(-gate))[..., None]
    return copy * lib.eye(ROWS)[token] + (1 - copy) * softmax


@pytest.mark.parametrize("implementation", ["dense", "fused"])
def test_value_and_gradient_agree_with_the_definition(implementation, monkeypatch):
    # Four chunks of three positions.
    monkeypatch.setattr("research.objectives.losses.softmax.CHUNK_LOGITS", 3 * 128 * 3)
    arrays, gate, token, target, weight = make_inputs()

    def loss(arrays, gate, weight):
        readout = networks.Readout(*arrays, SIZE)
        term, correct = copy_cross_entropy(
            readout, gate, token, target, weight, implementation=implementation
        )
        return term.total / term.weight, correct

    def reference(arrays, gate, weight):
        p = distribution(arrays, gate, token, jnp)
        chosen = jnp.take_along_axis(p, target[..., None], axis=-1)[..., 0]
        return -jnp.sum(weight * jnp.log(chosen)) / jnp.sum(weight), ()

    results = [
        jax.jit(jax.value_and_grad(fn, argnums=(0, 1, 2), has_aux=True))(
            arrays, gate, weight
        )
        for fn in (loss, reference)
    ]
    (value, correct), grads = results[0]
    (expected, _), expected_grads = results[1]
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for x, y in zip(*map(jax.tree.leaves, (grads, expected_grads)), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5 * np.abs(y).max())
    p = distribution(tuple(map(np.float64, arrays)), np.float64(gate), token)
    right = p.argmax(axis=-1) == target
    assert 0 < right.sum() < right.size
    np.testing.assert_allclose(correct, weight[right].sum(), rtol=1e-6)


def test_a_gate_of_1_copies_and_a_gate_of_0_does_not():
    arrays, gate, token, target, _ = make_inputs()
    readout, weight = networks.Readout(*arrays, SIZE), np.ones_like(gate)
    same = token == target

    @jax.jit
    def score(gate, weight):
        return copy_cross_entropy(readout, gate, token, target, weight)

    closed, _ = score(gate * 0 - 60, weight)
    softmax, _ = jax.jit(lambda x: cross_entropy.cross_entropy(readout, target, x))(
        weight
    )
    np.testing.assert_allclose(closed.total, softmax.total, rtol=1e-5)
    copied = same.astype(np.float32)
    opened, correct = score(gate * 0 + 60, copied)
    assert opened.total == pytest.approx(0, abs=1e-5) and correct == copied.sum()
    other, correct = score(gate * 0 + 60, 1 - copied)
    assert other.total / other.weight > 60 and correct == 0


def test_weight_0_has_gradient_0():
    arrays, gate, token, target, _ = make_inputs()
    readout, weight = networks.Readout(*arrays, SIZE), np.zeros_like(gate)

    def total(feature, gate):
        changed = readout._replace(feature=feature)
        return copy_cross_entropy(changed, gate, token, target, weight)[0].total

    loss, grads = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(arrays[0], gate)
    assert loss == 0 and not any(grad.any() for grad in grads)
