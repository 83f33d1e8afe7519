"""Translations of vectors: distances of triples, losses of true and false triples."""

# B batch, N negatives, D width

import jax
import jax.numpy as jnp
from jax import lax

LEAST = 1e-24
"""The smallest squared length: the gradient of a root is infinite at 0."""


def normalized(x: jax.Array) -> jax.Array:
    """Vectors [..., D] with length 1; a zero vector stays 0."""
    square = jnp.sum(x**2, axis=-1, keepdims=True)
    return x * lax.rsqrt(jnp.maximum(square, LEAST))


def distance(difference: jax.Array, norm: int) -> jax.Array:
    """[...]: the L1 or the L2 norm of differences [..., D]."""
    if norm == 1:
        return jnp.sum(jnp.abs(difference), axis=-1)
    square = jnp.sum(difference**2, axis=-1)
    return jnp.where(square > 0, jnp.sqrt(jnp.maximum(square, LEAST)), 0.0)


def margin_loss(true_B1: jax.Array, false_BN: jax.Array, margin: float) -> jax.Array:
    """[B]: the mean hinge of distances over a triple's negatives.

    See Bordes et al. 2013, equation 1.
    """
    return jnp.maximum(margin + true_B1 - false_BN, 0.0).mean(axis=1)


def sigmoid_loss(
    true_B1: jax.Array, false_BN: jax.Array, margin: float, temperature: float
) -> jax.Array:
    """[B]: the sigmoid loss of distances (Sun et al. 2019).

    It is half the sum of -log sigmoid(margin - d) of a triple and the weighted mean of
    -log sigmoid(d - margin) of its negatives (equations 4 and 5).

    Args:
      temperature: the weights are softmax(-temperature d), without a gradient; 0: all
        equal.
    """
    weight = jax.nn.softmax(lax.stop_gradient(-temperature * false_BN))
    of_true = jax.nn.softplus(true_B1[:, 0] - margin)
    of_false = jax.nn.softplus(margin - false_BN)
    return (of_true + jnp.sum(weight * of_false, axis=1)) / 2
