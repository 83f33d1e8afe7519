"""A network's function as one program: operation by operation it would be a hundred."""

import jax

from research import models


def apply(network, params, fn, dropout_key=None):
    """`models.apply`, compiled. Ints in the result become arrays."""

    def run(params, key):
        return models.apply(network, params, fn, key)

    return jax.jit(run)(params, dropout_key)
