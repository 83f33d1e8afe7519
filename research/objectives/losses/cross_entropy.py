"""Cross-entropy over a vocabulary, binary cross-entropy, and the sums they return.

A readout holds the factors of the vocabulary logits (`research.networks`), so the loss,
not the network, decides whether the logits of all positions exist at once, see
`softmax`.
"""

# B batch, K scored positions, E width of the table, V rows of the table (with padding)

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.contract.batch import Batch
from research.objectives.losses.softmax import IMPLEMENTATIONS, SoftmaxOptions


class Term(NamedTuple):
    """One scored quantity, before any division."""

    total: jax.Array  # weighted sum over everything scored
    weight: jax.Array  # sum of the weights
    coef: jax.Array | float = 1.0  # factor of total / weight in the loss; 0: a metric


def cross_entropy(
    readout: Any,
    target: jax.Array,
    weight: jax.Array,
    *,
    implementation: str = "fused",
    smoothing: float = 0.0,
    z_loss: float = 0.0,
    skip: bool = False,
) -> tuple[Term, jax.Array]:
    """Weighted sum of -log p(target), and the weight of correct positions.

    A position is correct if the target's logit exceeds every other; ties are wrong.

    Args:
      readout: a `networks.Readout` or `networks.OtherReadout` at [B, K].
      target: [B, K] int32, a valid id even where weight is 0.
      weight: [B, K] float32; a position of weight 0 has no gradient.
      implementation: fused, or a reference, dense or chunked; all have the same value
        and gradient.
      smoothing: e of the target (1 - e) onehot + e / size (Szegedy et al. 2016,
        section 7).
      z_loss: factor of log(Z)^2 (Mesh TensorFlow; Chowdhery et al. 2022, section 5).
      skip: whether to skip chunks whose positions all have weight 0.

    Raises:
      ValueError: the implementation is unknown.
      UserError: smoothing or a z-loss that the readout does not have.
    """
    if implementation not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise ValueError(
            f"implementation must be one of {known}, not {implementation!r}"
        )
    weight = weight.astype(jnp.float32)
    options = SoftmaxOptions(0, smoothing, z_loss, skip)
    score = IMPLEMENTATIONS[implementation]
    total, correct = readout.loss(score, options, target, weight)
    return Term(total, jnp.sum(weight)), lax.stop_gradient(jnp.sum(correct))


def masked_cross_entropy(
    name: str, readout: Any, batch: Batch, z_loss: float = 0.0
) -> dict[str, Term]:
    """Terms `name` and "accuracy" (a metric) of the batch's targets.

    Args:
      readout: the readout at the scored positions [B, K].
      batch: has target and weight [B, K].
      z_loss: factor of log(Z)^2.
    """
    answers = batch["target"], batch["weight"]
    term, correct = cross_entropy(readout, *answers, z_loss=z_loss)
    return {name: term, "accuracy": Term(correct, term.weight, 0.0)}


def with_accuracy(
    name: str, term: Term, correct: jax.Array, *, coef: float = 1.0
) -> dict[str, Term]:
    """Terms `name`, with coefficient `coef`, and "`name`_accuracy" (a metric).

    Args:
      correct: the weight of correct predictions.
    """
    accuracy = Term(correct, term.weight, 0.0)
    return {name: term._replace(coef=coef), f"{name}_accuracy": accuracy}


def binary_cross_entropy(
    logits: jax.Array, label: jax.Array, weight: jax.Array
) -> tuple[Term, jax.Array]:
    """Weighted sum of the sigmoid cross-entropy, and the weight of correct answers.

    Args:
      logits: any shape and float type; the loss is computed in float32.
      label: 0 or 1, same shape.
      weight: float32, same shape.
    """
    logits, label = logits.astype(jnp.float32), label.astype(jnp.float32)
    loss = jax.nn.softplus(logits) - logits * label
    is_correct = (logits > 0) == (label > 0.5)
    correct = jnp.sum(jnp.where(is_correct, weight, 0.0))
    return Term(jnp.sum(loss * weight), jnp.sum(weight)), correct
