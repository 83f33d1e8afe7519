"""Functions of one matrix, mapped over parameters, some of which are stacked layers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks


def by_matrix(fn: Callable[..., jax.Array], updates: Any, *others: Any) -> Any:
    """Maps `fn` over parameters, and over each layer of stacked ones (blocks)."""

    def apply(depth: int | np.ndarray, *leaves: jax.Array) -> jax.Array:
        return jax.vmap(fn)(*leaves) if np.ndim(depth) else fn(*leaves)

    return jax.tree.map(apply, networks.layer_depths(updates), updates, *others)


def rms(x: jax.Array) -> jax.Array:
    """The root mean square of an array's entries."""
    return jnp.sqrt(jnp.mean(jnp.square(x)))
