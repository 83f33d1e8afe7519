"""Normalisations: each is its definition, of each position alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research.networks.shared import dense
from research.networks.shared.norms import NORMS

DEFINITIONS = {
    "layernorm": lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
    "rmsnorm": lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True)),
}
each_norm = pytest.mark.parametrize("name", NORMS)


@pytest.fixture
def x():
    return np.float32(np.random.default_rng(0).normal(size=(2, 3, 8)))


@each_norm
def test_it_is_its_definition_with_a_scale_and_a_bias(make_options, name, x):
    params = {"scale": jnp.full(8, 2.0)}
    params |= {"bias": jnp.full(8, 3.0)} if NORMS[name].has_bias else {}
    module = dense.Norm(make_options(norm=name))
    assert module.init(jax.random.key(0), x)["params"].keys() == params.keys()
    y = module.apply({"params": params}, x)
    expected = 2 * DEFINITIONS[name](np.float64(x)) + 3 * NORMS[name].has_bias
    np.testing.assert_allclose(y, expected, atol=1e-5)
    rounded = jnp.bfloat16(x)
    assert module.apply({"params": params}, rounded).dtype == rounded.dtype


@each_norm
def test_it_ignores_the_scale_of_its_input(name, x):
    y = NORMS[name].apply(x, 0.0)
    np.testing.assert_allclose(
        NORMS[name].apply(1000 * x, 0.0), y, rtol=1e-4, atol=1e-4
    )
