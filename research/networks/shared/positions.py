"""Sines and cosines of positions, which may restart or repeat."""

# B batch, L length

import math

import jax
import jax.numpy as jnp
import numpy as np


def sinusoids(position_BL: jax.Array, width: int) -> jax.Array:
    """[B, L, width]: sines, then cosines (Vaswani et al. 2017, section 3.5)."""
    angle_BLD = sinusoid_angles(position_BL, width)
    parts = (jnp.sin(angle_BLD), jnp.cos(angle_BLD))
    return jnp.concatenate(parts, axis=-1)[..., :width]


def sinusoid_angles(
    position_BL: jax.Array, width: int, theta: float = 10_000
) -> jax.Array:
    """[B, L, ceil(width / 2)]: position x theta^(-2n / width), in radians."""
    rate = rates(width, theta)
    return position_BL.astype(jnp.float32)[..., None] * rate[None, None]


def rates(width: int, theta: float) -> np.ndarray:
    """[ceil(width / 2)]: theta^(-2n / width)."""
    n = np.arange((width + 1) // 2)
    return np.exp(-math.log(theta) / (width / 2) * n, dtype=np.float32)
