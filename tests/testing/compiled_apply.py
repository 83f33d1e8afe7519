"""A network's function as one program: operation by operation it would be a hundred."""

import jax

from research import networks


def apply(network, params, fn, dropout_key=None):
    """`networks.apply`, compiled. Ints in the result become arrays."""

    def run(params, key):
        return networks.apply(network, params, fn, key)

    return jax.jit(run)(params, dropout_key)
