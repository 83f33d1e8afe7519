"""copying: the gated mixture of a copy and a vocabulary, against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models
from research.objectives.losses import cross_entropy
from research.objectives.losses.copy_loss import copied

SIZE, ROWS = 100, 128


def case(batch=3, places=11, width=5):
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    bias = np.where(np.arange(ROWS) < SIZE, normal(ROWS), -1e9).astype(np.float32)
    arrays = (normal(batch, places, width), normal(ROWS, width), bias)
    gate = 2 * normal(batch, places)
    token = rng.integers(0, SIZE, (batch, places))
    target = np.where(rng.random(token.shape) < 0.5, token, (token + 7) % SIZE)
    weight = rng.random((batch, places)) * (rng.random((batch, places)) < 0.7)
    return arrays, gate, token, target, weight.astype(np.float32)


def distribution(arrays, gate, token, lib=np):
    """[B, K, V]: the probability of every token, by the definition."""
    feature, table, bias = arrays
    logits = feature @ table.T + bias.reshape(1, 1, -1)
    e = lib.exp(logits - logits.max(axis=-1, keepdims=True))
    softmax = e / e.sum(axis=-1, keepdims=True)
    share = 1 / (1 + lib.exp(-gate))[..., None]
    return share * lib.eye(ROWS)[token] + (1 - share) * softmax


@pytest.mark.parametrize("form", ["dense", "fused"])
def test_value_and_gradient_are_the_definitions(form, monkeypatch):
    monkeypatch.setattr(
        cross_entropy, "CHUNK", 3 * 128 * 3
    )  # four chunks of three places
    arrays, gate, token, target, weight = case()

    def ours(arrays, gate, weight):
        readout = models.Readout(*arrays, SIZE)
        term, correct = copied(readout, gate, token, target, weight, form=form)
        return term.total / term.weight, correct

    def reference(arrays, gate, weight):
        p = distribution(arrays, gate, token, jnp)
        chosen = jnp.take_along_axis(p, target[..., None], axis=-1)[..., 0]
        return -jnp.sum(weight * jnp.log(chosen)) / jnp.sum(weight), ()

    slopes = [
        jax.jit(jax.value_and_grad(fn, argnums=(0, 1, 2), has_aux=True))(
            arrays, gate, weight
        )
        for fn in (ours, reference)
    ]
    (value, correct), gradient = slopes[0]
    (expected, _), wanted = slopes[1]
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for x, y in zip(*map(jax.tree.leaves, (gradient, wanted)), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5 * np.abs(y).max())
    p = distribution(tuple(map(np.float64, arrays)), np.float64(gate), token)
    right = p.argmax(axis=-1) == target
    assert 0 < right.sum() < right.size
    np.testing.assert_allclose(correct, weight[right].sum(), rtol=1e-6)


def test_an_open_gate_copies_and_a_closed_one_does_not():
    arrays, gate, token, target, _ = case()
    readout, weight = models.Readout(*arrays, SIZE), np.ones_like(gate)
    same = token == target
    closed, _ = copied(readout, gate * 0 - 60, token, target, weight)
    plain, _ = cross_entropy.cross_entropy(readout, target, weight)
    np.testing.assert_allclose(closed.total, plain.total, rtol=1e-5)
    here = same.astype(np.float32)
    opened, correct = copied(readout, gate * 0 + 60, token, target, here)
    assert opened.total == pytest.approx(0, abs=1e-5) and correct == here.sum()
    lost, correct = copied(readout, gate * 0 + 60, token, target, 1 - here)
    assert lost.total / lost.weight > 60 and correct == 0


def test_weight_zero_is_gradient_zero_whatever_is_read():
    arrays, gate, token, target, _ = case()
    readout, nothing = models.Readout(*arrays, SIZE), np.zeros_like(gate)

    def total(feature, gate):
        here = readout._replace(feature=feature)
        return copied(here, gate, token, target, nothing)[0].total

    loss, slopes = jax.value_and_grad(total, argnums=(0, 1))(arrays[0], gate)
    assert loss == 0 and not any(slope.any() for slope in slopes)
