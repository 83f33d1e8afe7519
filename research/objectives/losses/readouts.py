"""Logits of a vocabulary, and their loss, for each class of readouts."""

# B batch, K scored positions, E width of the table, V vocabulary

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp

from research import networks
from research.contract.errors import UserError
from research.objectives.losses.softmax import SoftmaxOptions

Score = Callable[..., tuple[jax.Array, jax.Array]]


@singledispatch
def vocabulary_logits(readout: Any) -> jax.Array:
    """Float32 logits [B, K, V] of a readout at [B, K].

    For an adaptive softmax they are log p(word) = log p(cluster) +
    log p(word | cluster) (Grave et al. 2017, section 4).

    Raises:
      TypeError: no function is registered for the readout's class.
    """
    raise TypeError(f"a {type(readout).__name__} has no logits here")


@vocabulary_logits.register
def _(readout: networks.Readout) -> jax.Array:
    # `softmax.compute_logits` with the table as the left operand. XLA:CPU would first
    # transpose a right one, which for few positions adds half the time of the product.
    logits_VBK = jnp.einsum(
        "ve,bke->vbk",
        readout.table.astype(readout.feature.dtype),
        readout.feature,
        preferred_element_type=jnp.float32,
    )
    bias_V = readout.bias.astype(jnp.float32)
    logits_BKV = jnp.moveaxis(logits_VBK, 0, -1) + bias_V[None, None]
    return logits_BKV[..., : readout.size]


@vocabulary_logits.register
def _(readout: networks.AdaptiveReadout) -> jax.Array:
    first = readout.cutoffs[0]
    head = jax.nn.log_softmax(vocabulary_logits(readout.head), axis=-1)
    parts = [head[..., :first]]
    for number, tail in enumerate(readout.tails):
        word = jax.nn.log_softmax(vocabulary_logits(tail), axis=-1)
        parts.append(head[..., first + number, None] + word)
    return jnp.concatenate(parts, axis=-1)


@singledispatch
def softmax_loss(
    readout: Any,
    score: Score,
    options: SoftmaxOptions,
    target_BK: jax.Array,
    weight_BK: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The sum of the losses, and the weights [B, K] of correct positions.

    Args:
      score: one of `softmax.IMPLEMENTATIONS`.
      options: the size is the readout's own.
      target_BK, weight_BK: see `cross_entropy`.

    Raises:
      TypeError: no function is registered for the readout's class.
      UserError: smoothing or a z-loss with an `AdaptiveReadout`.
    """
    raise TypeError(f"a {type(readout).__name__} has no loss here")


@softmax_loss.register
def _(
    readout: networks.Readout, score: Score, options: SoftmaxOptions, *answers: Any
) -> tuple[jax.Array, jax.Array]:
    options = options._replace(size=readout.size)
    return score(options, readout.feature, readout.table, readout.bias, *answers)


@softmax_loss.register
def _(
    readout: networks.AdaptiveReadout,
    score: Score,
    options: SoftmaxOptions,
    target_BK: jax.Array,
    weight_BK: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The sum of the losses of a readout with clusters, and the correct weight.

    -log p(word) = -log p(cluster) - log p(word | cluster) for the words of a cluster
    (Grave et al. 2017, section 4; kimiyoung/transformer-xl, proj_adaptive_softmax.py).
    A cluster's softmax is computed for the positions whose target is in it: they are
    sorted first, and chunks without any are skipped. A position is correct if both
    cluster and word are.
    """
    if options.smoothing or options.z_loss:
        raise UserError("model.cutoffs excludes label smoothing and a z-loss")
    cutoffs = readout.cutoffs
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
