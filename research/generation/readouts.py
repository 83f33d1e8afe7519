"""The distribution over the vocabulary that a readout stands for."""

# B batch, P positions, V vocabulary

from typing import Any

import jax
import jax.numpy as jnp

from research import models
from research.objectives.losses.softmax import compute_logits


def log_probabilities(readout: Any) -> jax.Array:
    """Float32 log p [B, P, V] of a readout at [B, P], V the rows that its softmax has.

    Of an adaptive softmax log p(word) = log p(cluster) + log p(word | cluster) (Grave
    et al. 2017, section 4).
    """
    if not isinstance(readout, models.AdaptiveReadout):
        return _log_softmax(readout)
    first, log_p = readout.cutoffs[0], _log_softmax(readout.head)
    parts = [log_p[..., :first]]
    for number, tail in enumerate(readout.tails):
        cluster = log_p[..., first + number, None]
        parts.append(cluster + _log_softmax(tail))
    return jnp.concatenate(parts, axis=-1)


def _log_softmax(readout):
    logits = compute_logits(readout.feature, readout.table, readout.bias)
    return jax.nn.log_softmax(logits[..., : readout.size], axis=-1)
