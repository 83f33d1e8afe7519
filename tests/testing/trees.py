"""Trees of arrays: random parameters of a network, and how close two trees are."""

import jax
import numpy as np

from research import networks


def parameter_shapes(network, fn):
    """The shapes and types of the parameters of `fn(net)`."""
    boxed = jax.eval_shape(lambda: networks.init(network, fn, jax.random.key(0)))
    return networks.unbox(boxed)


def make_params(network, fn, seed: int = 0):
    """Random parameters of `fn(net)`: biases are not 0 and scales not 1."""
    random = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: random.normal(0, 0.4, leaf.shape).astype(np.float32),
        parameter_shapes(network, fn),
    )


def assert_close(actual, expected, tolerance: float = 1e-5) -> None:
    """Trees are equal up to a fraction of the second's largest entry."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    both = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    pairs = [[np.asarray(x, np.float32) for x in pair] for pair in both]
    # np.max, unlike max, returns NaN if any entry is NaN.
    largest = np.max([np.abs(y).max() for _, y in pairs])
    error = np.max([np.abs(x - y).max() for x, y in pairs])
    assert error <= tolerance * largest, (error, largest)
