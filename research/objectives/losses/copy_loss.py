"""A loss for readers that may copy: a gate between the input token and a vocabulary."""

# B batch, K places, E width of the table, V its rows (with padding), C of a chunk

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.objectives.losses.cross_entropy import Term, compute_logits, cut, join


class Gated(NamedTuple):
    """What a reader says of its places, each [B, K] float32."""

    answer: jax.Array  # log of the softmax's probability of the target
    rival: jax.Array  # of the likeliest other token; not differentiated
    read: jax.Array  # of the token that is read; not differentiated


def copied(
    readout: Any,
    gate: jax.Array,
    token: jax.Array,
    target: jax.Array,
    weight: jax.Array,
    *,
    form: str = "fused",
) -> tuple[Term, jax.Array]:
    """Weighted sum of -log p(target), and the weight of places that are right.

    p = D onehot(token) + (1 - D) softmax(logits) with D = sigmoid(gate) (Clark et al.
    2020, section 3.5, All-Tokens MLM). Right is a target more likely than any other.

    Args:
      readout: feature [B, K, E], table [V, E], bias [V].
      gate: [B, K] float.
      token: [B, K] int32, what is read there.
      target: [B, K] int32, legal also where weight is 0.
      weight: [B, K] float32; a place of weight 0 has no gradient.
      form: dense (all logits at once), chunked or fused (a few places at a time).
    """
    said = _places(readout, token, target, dense=form == "dense")
    gate = gate.astype(jnp.float32)
    copies, reads = jax.nn.log_sigmoid(gate), jax.nn.log_sigmoid(-gate)
    same = token == target
    softmax = reads + said.answer
    log_p = jnp.where(same, jnp.logaddexp(copies, softmax), softmax)
    # The token that is read is a rival of any other target.
    other = jnp.where(same, -jnp.inf, jnp.logaddexp(copies, reads + said.read))
    right = log_p > jnp.maximum(reads + said.rival, other)
    correct = lax.stop_gradient(jnp.sum(jnp.where(right, weight, 0.0)))
    return Term(-jnp.sum(log_p * weight), jnp.sum(weight)), correct


def _places(readout: Any, token, target, *, dense: bool) -> Gated:
    """Log probabilities of the softmax; logits are computed anew for the gradient."""
    feature_BKE, table_VE, bias_V = readout[:3]

    def body(chunk):
        feature, target, token = chunk
        logits_BCV = compute_logits(feature, table_VE, bias_V)
        lse_BC = jax.nn.logsumexp(logits_BCV, axis=-1)
        index = lax.broadcasted_iota(jnp.int32, logits_BCV.shape, 2)
        at_target = index == target[..., None]
        answer = jnp.sum(jnp.where(at_target, logits_BCV, 0.0), axis=-1)
        rival = jnp.max(jnp.where(at_target, -jnp.inf, logits_BCV), axis=-1)
        read = jnp.sum(jnp.where(index == token[..., None], logits_BCV, 0.0), axis=-1)
        return Gated(
            answer - lse_BC,
            lax.stop_gradient(rival - lse_BC),
            lax.stop_gradient(read - lse_BC),
        )

    if dense:
        return body((feature_BKE, target, token))
    chunks = cut(feature_BKE, len(table_VE), target, token)
    found = lax.map(partial(jax.checkpoint, prevent_cse=False)(body), chunks)
    return Gated(*(join(array, target.shape[1]) for array in found))
