"""Dense layers and norms: custom gradients equal those of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from research.networks.shared import dense


def random_arrays(*shapes):
    random = np.random.default_rng(0)
    return [np.float32(random.normal(size=shape)) for shape in shapes]


def test_a_parameter_is_made_once_and_then_read():
    """To trace `init` wherever it is read would take a third of a network's trace."""
    made = []

    class Scale(dense.Module):
        @nn.compact
        def __call__(self):
            def init(key):
                made.append(key)
                return np.float32(1)

            return self.param("scale", init)

    assert Scale().init(jax.random.key(0)) == {"params": {"scale": 1}}
    assert Scale().apply({"params": {"scale": np.float32(2)}}) == 2
    assert len(made) == 1


def norm(options, x):
    module = dense.Norm(options)
    return module.apply({"params": {"scale": jnp.full(x.shape[-1], 2.0)}}, x)


def test_norms_are_the_definitions(make_options):
    (x,) = random_arrays((2, 3, 8))
    centred = x - x.mean(-1, keepdims=True)
    options = make_options(bias=False)
    np.testing.assert_allclose(
        norm(options, x), 2 * centred / x.std(-1, keepdims=True), atol=1e-5
    )
    root_mean_square = np.sqrt((x * x).mean(-1, keepdims=True))
    options = make_options(norm="rmsnorm")
    np.testing.assert_allclose(norm(options, x), 2 * x / root_mean_square, atol=1e-5)


def test_norms_ignore_the_scale_of_their_input(make_options):
    (x,) = random_arrays((1, 2, 8))
    for changes in ({"bias": False}, {"norm": "rmsnorm"}):
        options = make_options(norm_epsilon=0.0, **changes)
        np.testing.assert_allclose(
            norm(options, x), norm(options, 1000 * x), rtol=1e-4, atol=1e-4
        )
