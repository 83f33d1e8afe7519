"""Cross-entropy over a vocabulary, binary cross-entropy, and the sums they return.

A readout has the factors of the vocabulary logits (`research.networks`), so the loss
and not the network decides whether the logits of all positions exist at once, see
`softmax`.
"""

# B batch, K scored positions, E width of the table, V rows of the table (with padding)

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research import networks
from research.contract.batch import Batch
from research.contract.errors import UserError
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
      readout: feature [B, K, E], table [V, E], bias [V], size (rows in use); or an
        `AdaptiveReadout`.
      target: [B, K] int32, a valid id even where weight is 0.
      weight: [B, K] float32; a position of weight 0 has no gradient.
      implementation: fused, or a reference, dense or chunked; all have the same value
        and gradient.
      smoothing: e of the target (1 - e) onehot + e / size (Szegedy et al. 2016,
        section 7).
      z_loss: factor of log(Z)^2 (Mesh TensorFlow; Chowdhery et al. 2022, section 5).
      skip: chunks of positions of weight 0 are not computed.

    Raises:
      ValueError: the implementation is none of the three.
      UserError: smoothing or a z-loss with an `AdaptiveReadout`.
    """
    if implementation not in IMPLEMENTATIONS:
        known = ", ".join(IMPLEMENTATIONS)
        raise ValueError(f"implementation is one of {known}, not {implementation!r}")
    weight = weight.astype(jnp.float32)
    if isinstance(readout, networks.AdaptiveReadout):
        if smoothing or z_loss:
            raise UserError("model.cutoffs excludes label smoothing and a z-loss")
        total, correct = _adaptive(implementation, readout, target, weight)
    else:
        options = SoftmaxOptions(readout.size, smoothing, z_loss, skip)
        total, correct = IMPLEMENTATIONS[implementation](
            options, readout.feature, readout.table, readout.bias, target, weight
        )
    return Term(total, jnp.sum(weight)), lax.stop_gradient(jnp.sum(correct))


def _adaptive(
    implementation: str,
    readout: networks.AdaptiveReadout,
    target_BK: jax.Array,
    weight_BK: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The sum of the losses of a readout with clusters, and the correct weight.

    -log p(word) = -log p(cluster) - log p(word | cluster) for the words of a cluster
    (Grave et al. 2017, section 4; kimiyoung/transformer-xl, proj_adaptive_softmax.py).
    A cluster's softmax is computed for the positions whose target is in it: these are
    sorted first, and chunks without any are skipped. A position is correct if both
    cluster and word are.
    """
    score, cutoffs = IMPLEMENTATIONS[implementation], readout.cutoffs
    entry_BK = target_BK  # target of the head: the word itself, or its cluster
    for number, cutoff in enumerate(cutoffs):
        entry_BK = jnp.where(target_BK >= cutoff, cutoffs[0] + number, entry_BK)
    head = readout.head
    options = SoftmaxOptions(head.size)
    total, right_BK = score(
        options, head.feature, head.table, head.bias, entry_BK, weight_BK
    )
    correct = jnp.sum(jnp.where(target_BK < cutoffs[0], right_BK, 0.0))
    for number, tail in enumerate(readout.tails):
        inside_BK = entry_BK == cutoffs[0] + number
        order_BK = jnp.argsort(~inside_BK, axis=1, stable=True)
        word_BK = jnp.where(inside_BK, target_BK - cutoffs[number], 0)
        word, weight, right = (
            jnp.take_along_axis(array, order_BK, axis=1)
            for array in (word_BK, jnp.where(inside_BK, weight_BK, 0.0), right_BK)
        )
        feature = jnp.take_along_axis(tail.feature, order_BK[..., None], axis=1)
        options = SoftmaxOptions(tail.size, skip=True)
        loss, found = score(options, feature, tail.table, tail.bias, word, weight)
        total += loss
        correct += jnp.sum(jnp.where(right > 0, found, 0.0))
    return total, correct


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
