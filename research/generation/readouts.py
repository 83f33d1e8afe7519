"""The logits of a vocabulary that a readout stands for."""

# B batch, P positions, E width of the table, V vocabulary

from typing import Any

import jax
import jax.numpy as jnp

from research import networks


def vocabulary_logits(readout: Any) -> jax.Array:
    """Float32 logits [B, P, V] of a readout at [B, P], V the rows of its softmax.

    Of an adaptive softmax they are log p(word) = log p(cluster) + log p(word | cluster)
    (Grave et al. 2017, section 4).
    """
    if not isinstance(readout, networks.AdaptiveReadout):
        return _logits(readout)[..., : readout.size]
    first = readout.cutoffs[0]
    head = jax.nn.log_softmax(vocabulary_logits(readout.head), axis=-1)
    parts = [head[..., :first]]
    for number, tail in enumerate(readout.tails):
        word = jax.nn.log_softmax(vocabulary_logits(tail), axis=-1)
        parts.append(head[..., first + number, None] + word)
    return jnp.concatenate(parts, axis=-1)


def _logits(readout: Any) -> jax.Array:
    """Those of `softmax.compute_logits`, with the table as the left operand.

    As the right one XLA:CPU transposes it first, which of few positions takes half as
    long again as the product.
    """
    logits_VBP = jnp.einsum(
        "ve,bpe->vbp",
        readout.table.astype(readout.feature.dtype),
        readout.feature,
        preferred_element_type=jnp.float32,
    )
    bias_V = readout.bias.astype(jnp.float32)
    return jnp.moveaxis(logits_VBP, 0, -1) + bias_V[None, None]
