"""Activations are functions of single numbers, with their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research.networks.shared.activations import ACTIVATIONS, gelu


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_it_is_of_each_entry_alone_and_keeps_the_dtype(name):
    activation = ACTIVATIONS[name].apply
    x = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    whole = activation(x)
    assert activation(jnp.bfloat16(x)).dtype == jnp.bfloat16
    assert whole.dtype == np.float32
    alone = jax.vmap(jax.vmap(activation))(x)
    np.testing.assert_allclose(alone, whole, rtol=1e-6)
    step = 1e-2
    slope = (activation(x + step) - activation(x - step)) / (2 * step)
    gradient = jax.vmap(jax.vmap(jax.grad(activation)))(x)
    smooth = np.abs(x) > step
    np.testing.assert_allclose(gradient[smooth], slope[smooth], atol=1e-3)


def test_gelu_and_its_gradient_are_the_exact_ones():
    x = np.linspace(-30, 30, 2001, dtype=np.float32)

    def definition(x):
        return x * jax.scipy.stats.norm.cdf(x)

    for ours, theirs in (
        (gelu, definition),
        (jax.vmap(jax.grad(gelu)), jax.vmap(jax.grad(definition))),
    ):
        np.testing.assert_allclose(ours(x), theirs(x), atol=1e-5)
