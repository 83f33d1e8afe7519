"""cross_entropy: implementations agree; weight 0 has no gradient; definitions hold."""

import jax
import numpy as np
import pytest

from research.networks import Readout
from research.objectives.losses import cross_entropy, softmax

IMPLEMENTATIONS = ("dense", "chunked", "fused")


def case(batch=3, positions=11, width=5, size=100, rows=128):
    random = np.random.default_rng(0)
    bias = np.where(np.arange(rows) < size, random.normal(size=rows), -1e9)
    weight = random.random((batch, positions)) * (
        random.random((batch, positions)) < 0.7
    )
    weight[1] = 0
    arrays = (
        random.normal(size=(batch, positions, width)),
        random.normal(size=(rows, width)),
        bias,
        weight,
    )
    target = random.integers(0, size, (batch, positions))
    return *(np.float32(x) for x in arrays), target, size


def value_and_grads(implementation, arrays, target, size, **kw):
    def mean(feature, table, bias, weight):
        readout = Readout(feature, table, bias, size)
        term, correct = cross_entropy.cross_entropy(
            readout, target, weight, implementation=implementation, **kw
        )
        return 3.0 * term.total / term.weight, (term, correct)

    grad = jax.jit(jax.value_and_grad(mean, argnums=(0, 1, 2, 3), has_aux=True))
    return grad(*arrays)


def assert_equal(ours, theirs):
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, atol=2e-5 * max(1, np.abs(y).max()))


@pytest.mark.parametrize("kw", [{}, {"smoothing": 0.1, "z_loss": 1e-2}])
@pytest.mark.parametrize("implementation", ["chunked", "fused"])
def test_implementations_agree_in_value_and_gradient(implementation, kw, monkeypatch):
    *arrays, target, size = case()
    # Four chunks of three positions.
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", 3 * 128 * 3)
    expected = value_and_grads("dense", arrays, target, size, **kw)
    assert_equal(value_and_grads(implementation, arrays, target, size, **kw), expected)
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", 10**9)  # one chunk
    assert_equal(value_and_grads(implementation, arrays, target, size, **kw), expected)


@pytest.mark.parametrize("implementation", ["chunked", "fused"])
def test_implementations_agree_on_bfloat16_features(implementation):
    (feature, *arrays), target, size = case()[:4], *case()[4:]
    arrays = (feature.astype("bfloat16"), *arrays)
    expected = value_and_grads("dense", arrays, target, size)
    actual = value_and_grads(implementation, arrays, target, size)
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert x.dtype == y.dtype
        x, y = np.float32(x), np.float32(y)
        np.testing.assert_allclose(x, y, atol=0.02 * max(1e-3, np.abs(y).max()))


def test_the_loss_is_its_definition():
    *arrays, target, size = case()
    feature, table, bias, weight = (np.float64(x) for x in arrays)
    logits = (feature @ table.T + bias)[..., :size]
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_p, target[..., None], -1)[..., 0]
    readout = Readout(*arrays[:3], size)
    term, correct = cross_entropy.cross_entropy(readout, target, arrays[3])
    np.testing.assert_allclose(term.total, -(weight * chosen).sum(), rtol=1e-5)
    np.testing.assert_allclose(term.weight, weight.sum(), rtol=1e-6)
    expected = (logits.argmax(-1) == target) * weight
    np.testing.assert_allclose(correct, expected.sum(), rtol=1e-6)

    smooth = cross_entropy.cross_entropy(readout, target, arrays[3], smoothing=0.2)[0]
    mixed = 0.8 * chosen + 0.2 * log_p.mean(-1)
    np.testing.assert_allclose(smooth.total, -(weight * mixed).sum(), rtol=1e-5)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_weight_zero_is_gradient_zero_for_any_target(implementation, monkeypatch):
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", 3 * 128 * 3)
    (*arrays, weight), target, size = case()[:4], *case()[4:]
    (_, (term, _)), grads = value_and_grads(
        implementation, (*arrays, weight), target, size
    )
    other = np.where(weight > 0, target, 0)
    (_, (same, _)), again = value_and_grads(
        implementation, (*arrays, weight), other, size
    )
    assert term.total == same.total
    np.testing.assert_array_equal(grads[0][weight == 0], 0)
    np.testing.assert_allclose(grads[1], again[1], atol=1e-7)

    nothing = np.zeros_like(weight)

    def total(arrays):
        return cross_entropy.cross_entropy(
            Readout(*arrays, size), target, nothing, implementation=implementation
        )[0].total

    loss, grads = jax.jit(jax.value_and_grad(total))(arrays)
    assert loss == 0
    assert all((np.asarray(leaf) == 0).all() for leaf in grads)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_padded_rows_have_no_probability_and_no_gradient(implementation):
    *arrays, target, size = case()
    (value, _), grads = value_and_grads(
        implementation, arrays, target, size, smoothing=0.1
    )
    feature, table, bias, weight = arrays
    whole = (feature, table[:size], bias[:size], weight)
    (same, _), _ = value_and_grads(implementation, whole, target, size, smoothing=0.1)
    np.testing.assert_allclose(value, same, rtol=1e-6)
    np.testing.assert_allclose(grads[1][size:], 0, atol=1e-7)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_constant_model_is_never_correct(implementation):
    feature, table, bias, weight, target, size = case()
    readout = Readout(0 * feature, table, 0 * bias, size)
    term, correct = cross_entropy.cross_entropy(
        readout, target, weight, implementation=implementation
    )
    arrays = (*readout[:3], weight)
    (_, (_, trained)), _ = value_and_grads(implementation, arrays, target, size)
    assert correct == trained == 0  # also where it is differentiated
    np.testing.assert_allclose(term.total / term.weight, np.log(128), rtol=1e-5)


@pytest.mark.parametrize("implementation", ["chunked", "fused"])
def test_logits_of_all_positions_never_exist(implementation, monkeypatch):
    monkeypatch.setattr(softmax, "CHUNK_LOGITS", 3 * 128 * 3)
    *arrays, weight, target, size = case()
    all_logits = 3 * 11 * 128

    def largest(implementation):
        def total(*arrays):
            return cross_entropy.cross_entropy(
                Readout(*arrays, size), target, weight, implementation=implementation
            )[0].total

        step = jax.jit(jax.grad(total, argnums=(0, 1, 2)))
        text = step.lower(*arrays).compile().as_text()
        shapes = [part.split("]")[0] for part in text.split("f32[")[1:]]
        sizes = [np.prod([int(n) for n in s.split(",") if n]) for s in shapes]
        return max(sizes)

    assert largest(implementation) < all_logits
    assert largest("dense") >= all_logits


def test_smoothing_moves_the_optimum_and_z_loss_shrinks_logits():
    readout = Readout(np.ones((1, 1, 1)), np.zeros((4, 1)), np.array([9.0, 0, 0, 0]), 4)
    target, weight = np.zeros((1, 1), int), np.ones((1, 1))

    def bias_grad(**kw):
        def total(bias):
            here = readout._replace(bias=bias)
            return cross_entropy.cross_entropy(here, target, weight, **kw)[0].total

        return jax.jit(jax.grad(total))(readout.bias)[0]

    assert bias_grad() < 0 < bias_grad(smoothing=0.1)
    assert bias_grad(z_loss=1.0) > 1


def test_binary_cross_entropy_is_its_definition_and_never_nan():
    logits = np.array([[-200.0, -1.0, 0.5, 300.0, np.float32(3e38)]], np.float32)
    label = np.array([[0, 1, 1, 0, 1]])
    weight = np.array([[1.0, 2.0, 1.0, 1.0, 0.0]], np.float32)
    term, correct = cross_entropy.binary_cross_entropy(logits, label, weight)
    expected = 2 * np.log1p(np.exp(1.0)) + np.log1p(np.exp(-0.5)) + 300
    np.testing.assert_allclose(term.total, expected, rtol=1e-6)
    assert (term.weight, correct) == (5, 2)
    grad = jax.grad(
        lambda x: cross_entropy.binary_cross_entropy(x, label, 0 * weight)[0].total
    )(logits)
    np.testing.assert_array_equal(grad, 0)


def test_an_unknown_implementation_is_refused():
    with pytest.raises(ValueError, match="dense, chunked, fused, not 'sparse'"):
        cross_entropy.cross_entropy(None, None, None, implementation="sparse")
