"""Cross-entropy of a mixture of copying the input token and a vocabulary softmax."""

# B batch, K scored positions, E width of the table, V its rows (with padding)
# C positions of a chunk

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.objectives.losses.cross_entropy import Term
from research.objectives.losses.softmax import (
    compute_logits,
    join_chunks,
    split_chunks,
)


class SoftmaxLogProbs(NamedTuple):
    """Log probabilities of the softmax at scored positions, each [B, K] float32."""

    target: jax.Array  # log p of the target
    rival: jax.Array  # log p of the most likely other token; not differentiated
    input: jax.Array  # log p of the input token; not differentiated


def copy_cross_entropy(
    readout: Any,
    gate: jax.Array,
    token: jax.Array,
    target: jax.Array,
    weight: jax.Array,
    *,
    implementation: str = "fused",
) -> tuple[Term, jax.Array]:
    """Weighted sum of -log p(target), and the weight of correct positions.

    p = D onehot(token) + (1 - D) softmax(logits) with D = sigmoid(gate) (Clark et al.
    2020, section 3.5, All-Tokens MLM). A position is correct if its target is more
    likely than any other token.

    Args:
      readout: feature [B, K, E], table [V, E], bias [V].
      gate: [B, K] float.
      token: [B, K] int32, the input token.
      target: [B, K] int32, a valid id even where weight is 0.
      weight: [B, K] float32; a position of weight 0 has no gradient.
      implementation: fused (in chunks of positions), or the reference dense (all logits
        at once), with the same value and gradient.
    """
    dense = implementation == "dense"
    log_probs = _softmax_log_probs(readout, token, target, dense=dense)
    gate = gate.astype(jnp.float32)
    log_copy, log_softmax = jax.nn.log_sigmoid(gate), jax.nn.log_sigmoid(-gate)
    same = token == target
    predicted = log_softmax + log_probs.target
    log_p = jnp.where(same, jnp.logaddexp(log_copy, predicted), predicted)
    # If the input token is not the target, it is a rival.
    copied = jnp.logaddexp(log_copy, log_softmax + log_probs.input)
    copied = jnp.where(same, -jnp.inf, copied)
    right = log_p > jnp.maximum(log_softmax + log_probs.rival, copied)
    correct = lax.stop_gradient(jnp.sum(jnp.where(right, weight, 0.0)))
    return Term(-jnp.sum(log_p * weight), jnp.sum(weight)), correct


def _softmax_log_probs(
    readout: Any, token: jax.Array, target: jax.Array, *, dense: bool
) -> SoftmaxLogProbs:
    """Log probabilities in chunks; the gradient recomputes their logits."""
    feature_BKE, table_VE, bias_V = readout[:3]

    def body(chunk: tuple[jax.Array, ...]) -> Any:
        feature, target, token = chunk
        logits_BCV = compute_logits(feature, table_VE, bias_V)
        lse_BC = jax.nn.logsumexp(logits_BCV, axis=-1)
        index = lax.broadcasted_iota(jnp.int32, logits_BCV.shape, 2)
        at_target, at_input = index == target[..., None], index == token[..., None]
        of_target = jnp.sum(jnp.where(at_target, logits_BCV, 0.0), axis=-1)
        rival = jnp.max(jnp.where(at_target, -jnp.inf, logits_BCV), axis=-1)
        of_input = jnp.sum(jnp.where(at_input, logits_BCV, 0.0), axis=-1)
        return SoftmaxLogProbs(
            of_target - lse_BC,
            lax.stop_gradient(rival - lse_BC),
            lax.stop_gradient(of_input - lse_BC),
        )

    if dense:
        return body((feature_BKE, target, token))
    chunks = split_chunks(feature_BKE, len(table_VE), target, token)
    mapped = lax.map(partial(jax.checkpoint, prevent_cse=False)(body), chunks)
    return SoftmaxLogProbs(*(join_chunks(array, target.shape[1]) for array in mapped))
