"""Normalisations, by the values of `model.norm`."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp


def rmsnorm(x: jax.Array, epsilon: float) -> jax.Array:
    """x / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019)."""
    mean_square = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + epsilon)


def layernorm(x: jax.Array, epsilon: float) -> jax.Array:
    """`rmsnorm` of x - mean(x) (Ba et al. 2016)."""
    return rmsnorm(x - jnp.mean(x, axis=-1, keepdims=True), epsilon)


class Normalisation(NamedTuple):
    """What `dense.Norm` computes before its scale and bias."""

    line: str  # what it is, for users
    apply: Callable[[jax.Array, float], jax.Array]  # float32 [..., D] and
    # model.norm_epsilon -> float32 [..., D], over the last dimension
    has_bias: bool = True  # with model.bias, after the scale


NORMS = {
    "layernorm": Normalisation("mean 0 and variance 1 (Ba et al. 2016)", layernorm),
    "rmsnorm": Normalisation(
        "mean square 1, no bias (Zhang and Sennrich 2019)", rmsnorm, has_bias=False
    ),
}
"""The values of `model.norm`."""
