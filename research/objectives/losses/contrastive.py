"""Contrastive losses over the batch: InfoNCE, and cross-entropy over sampled tokens."""

# B batch (of all devices), C candidates of the batch, D width, K scored positions,
# N negatives, E width of the table

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from research.objectives.losses.cross_entropy import Term

MASKED_LOGIT = -1e9
"""The logit of an index that is not a candidate."""


def info_nce(
    query_BD: jax.Array, answer_BD: jax.Array, document: jax.Array, weight: jax.Array
) -> tuple[Term, jax.Array]:
    """Sum of -log softmax over the batch's answers, and the weight of correct rows.

    A row's candidates are its answer and those of rows of other documents. Answers from
    the same document are left out, since they might also be correct (Oord et al.
    2018; Kong et al. 2020, equation 2, whose negatives include them). A row is correct
    if its answer scores higher than all other candidates. A row without negatives has
    weight 0.

    Args:
      document: [B] int.
      weight: [B] float32; a row of weight 0 is not a candidate of any row.
    """
    logits_BC = jnp.einsum(
        "bd,cd->bc", query_BD, answer_BD, preferred_element_type=jnp.float32
    )
    row = jnp.arange(len(weight))
    own_BC = row[:, None] == row[None]
    other_BC = (document[:, None] != document[None]) & (weight[None] > 0) & ~own_BC
    own = jnp.sum(jnp.where(own_BC, logits_BC, 0.0), axis=1)
    others = jax.nn.logsumexp(jnp.where(other_BC, logits_BC, MASKED_LOGIT), axis=1)
    max_other = jnp.max(jnp.where(other_BC, logits_BC, MASKED_LOGIT), axis=1)
    weight = weight * jnp.any(other_BC, axis=1)
    correct = jnp.sum(jnp.where(own > max_other, weight, 0.0))
    loss = jax.nn.softplus(others - own)
    total = jnp.sum(jnp.where(weight > 0, weight * loss, 0.0))
    return Term(total, jnp.sum(weight)), jax.lax.stop_gradient(correct)


def sample_negatives(
    key: jax.Array, target: jax.Array, weight: jax.Array, count: int
) -> jax.Array:
    """[N] int32: `count` draws, with replacement, of the targets [B, K] by weight."""
    logits = jnp.where(weight > 0, jnp.log(weight), MASKED_LOGIT)
    index = jax.random.categorical(key, logits.reshape(-1), shape=(count,))
    return target.reshape(-1)[index]


def sampled_cross_entropy(
    readout: Any, target: jax.Array, weight: jax.Array, negative: jax.Array
) -> tuple[Term, jax.Array]:
    """Sum of -log softmax over a target and the negatives, and the correct weight.

    Negatives that equal the target are left out. Logits are not corrected for how often
    a token is drawn, so a token's score is relative to its frequency.

    Args:
      readout: feature [B, K, E], table [V, E], bias [V].
      target, weight: [B, K].
      negative: [N] int32, shared by all positions.
    """
    feature, table, bias = readout[:3]

    def score(index: jax.Array, equation: str) -> jax.Array:
        rows = jnp.take(table, index, axis=0, mode="clip").astype(feature.dtype)
        product = jnp.einsum(
            equation, feature, rows, preferred_element_type=jnp.float32
        )
        shift = jnp.take(bias, index, mode="clip")
        return product + shift.reshape(
            *(1,) * (product.ndim - shift.ndim), *shift.shape
        )

    own = score(target, "bke,bke->bk")
    other_BKN = score(negative, "bke,ne->bkn")
    same_BKN = target[..., None] == negative[None, None]
    other_BKN = jnp.where(same_BKN, MASKED_LOGIT, other_BKN)
    others = jax.nn.logsumexp(other_BKN, axis=-1)
    is_correct = own > jnp.max(other_BKN, axis=-1)
    correct = jnp.sum(jnp.where(is_correct, weight, 0.0))
    loss = jax.nn.softplus(others - own)
    return Term(jnp.sum(weight * loss), jnp.sum(weight)), jax.lax.stop_gradient(correct)


def in_batch(
    query_BD: jax.Array,
    answer_BD: jax.Array,
    weight: jax.Array,
    negatives: Sequence[jax.Array] = (),
    *,
    temperature: float | jax.Array,
    symmetric: bool = False,
) -> tuple[Term, jax.Array]:
    """Cross-entropy of a row's answer among the answers of all rows, from cosines.

    The logits are cosine / temperature (Gao et al. 2021, equations 1 and 5). The batch
    is that of all devices: a sharded step has the same loss.

    Args:
      weight: [B] float32; a row of weight 0 is neither query nor candidate.
      negatives: more candidates [B, D] for all rows.
      symmetric: the mean of this and of the loss of answers among the queries, without
        `negatives` (Radford et al. 2021).

    Returns:
      The loss, and the weight of the rows whose answer is nearest.
    """
    query, answer, *others = map(unit, (query_BD, answer_BD, *negatives))

    def logits(one: jax.Array, candidates: Sequence[jax.Array]) -> jax.Array:
        products = [
            jnp.einsum("bd,cd->bc", one, each, precision="highest")
            for each in candidates
        ]
        present = jnp.tile(weight > 0, len(candidates))[None]
        scores = jnp.concatenate(products, axis=1) / temperature
        return jnp.where(present, scores, MASKED_LOGIT)

    def loss(scores_BC: jax.Array) -> jax.Array:
        own = jnp.diagonal(scores_BC)
        each = jax.nn.logsumexp(scores_BC, axis=1) - own
        return jnp.sum(jnp.where(weight > 0, weight * each, 0.0))

    scores_BC = logits(query, [answer, *others])
    total = loss(scores_BC)
    if symmetric:
        total = (total + loss(logits(answer, [query]))) / 2
    nearest = jnp.argmax(scores_BC, axis=1) == jnp.arange(len(weight))
    correct = jnp.sum(jnp.where(nearest, weight, 0.0))
    return Term(total, jnp.sum(weight)), jax.lax.stop_gradient(correct)


def unit(x_BD: jax.Array) -> jax.Array:
    """The rows normalised to length 1, with a finite gradient at 0."""
    square = jnp.sum(x_BD**2, axis=-1, keepdims=True)
    return x_BD * jax.lax.rsqrt(jnp.maximum(square, 1e-24))
