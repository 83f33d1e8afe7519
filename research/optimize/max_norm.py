"""The limit of the norms of heads' weights (Kim 2014, section 2.1)."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

EPSILON = 1e-7
"""Added to norms (yoonkim/CNN_sentence at 23e0e1f, conv_net_sentence.py,
sgd_updates_adadelta)."""


def limit_norms(most: float) -> optax.GradientTransformation:
    """Changes updates so that heads' weights have at most this norm after the step.

    The norm is that of the weights of each output of a head, a column of its kernels.
    Biases are not limited.
    """

    def limit(
        path: tuple[jax.tree_util.DictKey, ...], update: jax.Array, param: jax.Array
    ) -> jax.Array:
        *modules, name = (str(key.key) for key in path)
        of_head = any(module.startswith("head_") for module in modules)
        if not of_head or name != "kernel":
            return update
        after = param + update
        norm = jnp.linalg.norm(after, axis=-2, keepdims=True)
        return after * (jnp.minimum(norm, most) / (norm + EPSILON)) - param

    def update(updates: Any, state: Any, params: Any) -> tuple[Any, Any]:
        return jax.tree_util.tree_map_with_path(limit, updates, params), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
