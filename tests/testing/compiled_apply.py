"""A network's function as one program: operation by operation it would be a hundred."""

import jax

from research import networks
from tests.testing import fast_key


def initial_params(network, fn):
    """The unboxed initial parameters of what `fn(net)` reads."""
    init = jax.jit(lambda key: networks.unbox(networks.init(network, fn, key)))
    return init(fast_key.key(0))


def apply(network, params, fn, dropout_key=None):
    """`networks.apply`, compiled. Ints in the result become arrays."""

    def run(params, key):
        return networks.apply(network, params, fn, key)

    return jax.jit(run)(params, dropout_key)
