"""The logits of a vocabulary that a readout stands for."""

# B batch, P positions, V vocabulary

from typing import Any

import jax
import jax.numpy as jnp

from research import networks
from research.objectives.losses.softmax import compute_logits


def vocabulary_logits(readout: Any) -> jax.Array:
    """Float32 logits [B, P, V] of a readout at [B, P], V the rows of its softmax.

    Of an adaptive softmax they are log p(word) = log p(cluster) + log p(word | cluster)
    (Grave et al. 2017, section 4).
    """
    if not isinstance(readout, networks.AdaptiveReadout):
        logits = compute_logits(readout.feature, readout.table, readout.bias)
        return logits[..., : readout.size]
    first = readout.cutoffs[0]
    head = jax.nn.log_softmax(vocabulary_logits(readout.head), axis=-1)
    parts = [head[..., :first]]
    for number, tail in enumerate(readout.tails):
        word = jax.nn.log_softmax(vocabulary_logits(tail), axis=-1)
        parts.append(head[..., first + number, None] + word)
    return jnp.concatenate(parts, axis=-1)
