"""Fixtures of the tests of networks: small networks and random groups of arrays."""

import jax
import numpy as np
import pytest

from research import networks
from tests.testing.model_options import model_options


@pytest.fixture
def make_group():
    """A group of arrays [B, L]; keyword arguments replace its arrays."""

    def make(batch=2, length=12, *, size=50, causal=False, seed=0, **arrays):
        random = np.random.default_rng(seed)
        position = np.tile(np.arange(length, dtype=np.int32), (batch, 1))
        zero = np.zeros_like(position)
        rank = position if causal else zero
        group = {
            "token": random.integers(5, size, (batch, length), dtype=np.int32),
            "position": position,
            "segment": zero + 1,
            "token_type": zero,
            "rank": rank,
            "reach": rank,
        }
        return group | arrays

    return make


@pytest.fixture
def make_options():
    """Options of a network of a few thousand parameters."""

    def make(**changes):
        small = {"layers": 2, "width": 16, "heads": 2, "feedforward": 24}
        small |= {"max_length": 32, "scan_unroll": 1}
        return model_options(**(small | changes))

    return make


@pytest.fixture
def make_params():
    """Random parameters of `fn(net)`: biases are not 0 and scales not 1."""

    def make(network, fn, seed=0):
        boxed = jax.eval_shape(lambda: networks.init(network, fn, jax.random.key(0)))
        leaves, tree = jax.tree.flatten(networks.unbox(boxed))
        random = np.random.default_rng(seed)
        return jax.tree.unflatten(
            tree, [random.normal(0, 0.4, x.shape).astype(np.float32) for x in leaves]
        )

    return make


@pytest.fixture
def assert_close():
    """Asserts that trees are equal up to a fraction of the second's largest entry."""

    def check(actual, expected, tolerance=1e-5):
        assert jax.tree.structure(actual) == jax.tree.structure(expected)
        pairs = list(
            zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
        )
        pairs = [[np.asarray(x, np.float32) for x in pair] for pair in pairs]
        # np.max, unlike max, returns NaN if any entry is NaN.
        largest = np.max([np.abs(y).max() for _, y in pairs])
        error = np.max([np.abs(x - y).max() for x, y in pairs])
        assert error <= tolerance * largest, (error, largest)

    return check
