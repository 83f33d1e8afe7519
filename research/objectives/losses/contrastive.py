"""Losses that tell an answer from others of the batch: InfoNCE, sampled tokens."""

# B batch (of all devices), C candidates of the batch, D width, K scored places,
# N negatives, E width of the table

from typing import Any

import jax
import jax.numpy as jnp

from research.objectives.losses.cross_entropy import Term

HIDDEN = -1e9
"""The logit of what is no candidate."""


def info_nce(
    query_BD: jax.Array, answer_BD: jax.Array, document: jax.Array, weight: jax.Array
) -> tuple[Term, jax.Array]:
    """Sum of -log softmax over the batch's answers, and the weight that is right.

    A row's candidates are its own answer and those of other documents' rows: answers of
    its own document might be right as well (Oord et al. 2018; Kong et al. 2020,
    equation 2, whose negatives may be such). Right is a query whose own answer scores
    higher than all others. A row that has no other to tell its own from weighs nothing.

    Args:
      document: [B] int.
      weight: [B] float32; a row of weight 0 is nobody's candidate.
    """
    logits_BC = jnp.einsum(
        "bd,cd->bc", query_BD, answer_BD, preferred_element_type=jnp.float32
    )
    number = jnp.arange(len(weight))
    own_BC = number[:, None] == number[None]
    other_BC = (document[:, None] != document[None]) & (weight[None] > 0) & ~own_BC
    own = jnp.sum(jnp.where(own_BC, logits_BC, 0.0), axis=1)
    others = jax.nn.logsumexp(jnp.where(other_BC, logits_BC, HIDDEN), axis=1)
    best = jnp.max(jnp.where(other_BC, logits_BC, HIDDEN), axis=1)
    weight = weight * jnp.any(other_BC, axis=1)
    correct = jnp.sum(jnp.where(own > best, weight, 0.0))
    loss = jax.nn.softplus(others - own)
    total = jnp.sum(jnp.where(weight > 0, weight * loss, 0.0))
    return Term(total, jnp.sum(weight)), jax.lax.stop_gradient(correct)


def draw(key: jax.Array, target: jax.Array, weight: jax.Array, count: int) -> jax.Array:
    """[N] int32: `count` of the targets [B, K], each as likely as its weight says."""
    odds = jnp.where(weight > 0, jnp.log(weight), HIDDEN)
    place = jax.random.categorical(key, odds.reshape(-1), shape=(count,))
    return target.reshape(-1)[place]


def sampled(
    readout: Any, target: jax.Array, weight: jax.Array, negative: jax.Array
) -> tuple[Term, jax.Array]:
    """Sum of -log softmax over a target and the negatives, and the weight right.

    Negatives that are the target itself are left out. Their odds are not corrected by
    how often they are drawn, so that a token's score is relative to its frequency.

    Args:
      readout: feature [B, K, E], table [V, E], bias [V].
      target, weight: [B, K].
      negative: [N] int32, for all places alike.
    """
    feature, table, bias = readout[:3]

    def score(index, form):
        rows = jnp.take(table, index, axis=0, mode="clip").astype(feature.dtype)
        product = jnp.einsum(form, feature, rows, preferred_element_type=jnp.float32)
        shift = jnp.take(bias, index, mode="clip")
        return product + shift.reshape(
            *(1,) * (product.ndim - shift.ndim), *shift.shape
        )

    own = score(target, "bke,bke->bk")
    other_BKN = score(negative, "bke,ne->bkn")
    same_BKN = target[..., None] == negative[None, None]
    other_BKN = jnp.where(same_BKN, HIDDEN, other_BKN)
    others = jax.nn.logsumexp(other_BKN, axis=-1)
    right = own > jnp.max(other_BKN, axis=-1)
    correct = jnp.sum(jnp.where(right, weight, 0.0))
    loss = jax.nn.softplus(others - own)
    return Term(jnp.sum(weight * loss), jnp.sum(weight)), jax.lax.stop_gradient(correct)
