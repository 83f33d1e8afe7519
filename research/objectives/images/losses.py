"""Losses of regions, by class, distribution and regression, and of answers."""

# B batch, C scored regions, n classes or answers, F values of a region's pixels

from collections.abc import Callable

import jax
import jax.numpy as jnp

from research.contract.batch import Batch
from research.objectives.losses.cross_entropy import Term, with_accuracy

REGRESSIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "none": jnp.zeros_like,
    "l2": jnp.square,
    "smooth_l1": lambda x: jnp.where(jnp.abs(x) < 1, x * x / 2, jnp.abs(x) - 0.5),
}
"""Name of a loss -> the loss of differences, elementwise; smooth_l1 is PyTorch's
SmoothL1Loss."""


def class_terms(logits: jax.Array, batch: Batch, coef: float) -> dict[str, Term]:
    """The term and the accuracy of the classes of regions, from logits [B, C, n]."""
    target, weight = batch["region_target"], batch["region_weight"]
    distribution = batch.get("region_distribution")
    if distribution is None:
        distribution = jax.nn.one_hot(target, logits.shape[-1])
    term = region_loss(logits, distribution, weight)
    right = jnp.sum(weight * (jnp.argmax(logits, axis=-1) == target))
    return with_accuracy("region", term, right, coef=coef)


def regression(
    name: str, predicted: jax.Array, values: jax.Array, weight: jax.Array
) -> Term:
    """Sum over regions of the mean over their values [B, C, F] of a loss."""
    loss = jnp.mean(REGRESSIONS[name](predicted - values), axis=-1)
    return Term(jnp.sum(weight * loss), jnp.sum(weight))


def answer_terms(logits: jax.Array, batch: Batch) -> dict[str, Term]:
    """The term and the accuracy of answers, from logits [B, n]."""
    answer, weight = batch["answer"], batch["answer_weight"]
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    loss = -jnp.take_along_axis(log_p, answer[:, None], axis=1)[:, 0]
    term = Term(jnp.sum(weight * loss), jnp.sum(weight))
    right = jnp.sum(weight * (jnp.argmax(logits, axis=-1) == answer))
    return with_accuracy("answer", term, right)


def region_loss(logits: jax.Array, distribution: jax.Array, weight: jax.Array) -> Term:
    """Sum of KL(distribution || softmax of logits) over regions [B, C].

    For a known class it is the cross-entropy (jiasenlu/vilbert_beta at f0c9a2b,
    vilbert/vilbert.py, whose distributions are a detector's).

    Args:
      logits, distribution: [B, C, n].
    """
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    entropy = jnp.sum(jax.scipy.special.xlogy(distribution, distribution), axis=-1)
    cross = -jnp.sum(distribution * log_p, axis=-1)
    return Term(jnp.sum(weight * (cross + entropy)), jnp.sum(weight))
