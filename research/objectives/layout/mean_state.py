"""The mean of the states of a text, which represents it."""

# B batch, L length, D width

import jax
import jax.numpy as jnp


def mean_state(states_BLD: jax.Array, segment_BL: jax.Array) -> jax.Array:
    """[B, D]: the mean of the states of non-padding positions."""
    here_BL = (segment_BL > 0).astype(states_BLD.dtype)
    total_BD = jnp.einsum("bld,bl->bd", states_BLD, here_BL)
    return total_BD / jnp.maximum(here_BL.sum(axis=1), 1)[:, None]
