"""The sum of softmax losses over scored positions, and which positions are correct.

All implementations have the same value and gradient. Objectives use the fused one; the
other two are references for tests:

dense    all logits at once, differentiated by JAX.
chunked  a few positions at a time; the backward pass recomputes their logits.
fused    a few positions at a time; the forward pass also computes the gradients, so
         logits are neither stored nor recomputed. With e = exp(logits - max) and
         Z = sum(e) the gradients are products with e, not with the probabilities:
         (e @ table) / Z - table[target], and for the table features / Z replace e / Z.
         Only logits and e have the size [C, V].

Chunks are taken along K, never along B, so each keeps the batch's sharding.
"""

# B batch, K scored positions, C positions of a chunk, E width of the table,
# V rows of the table (with padding)

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.networks import constrain

CHUNK_LOGITS = 2**22
"""Number of logits of a chunk, over all devices."""

MAX_CHUNKS = 8
"""The most chunks: each one reduces the table's gradient over the mesh."""

POSITION_AXES = ("batch", "length", None)
"""Logical axes of features [B, K, E] and of the table's rows at their targets."""


class SoftmaxOptions(NamedTuple):
    """Static parameters of the loss."""

    size: int  # rows of the table in use
    smoothing: float = 0.0
    z_loss: float = 0.0
    skip: bool = False  # skip chunks of weight 0; weights in them then have gradient 0


def compute_logits(
    feature_BCE: jax.Array, table_VE: jax.Array, bias_V: jax.Array
) -> jax.Array:
    """Float32 logits [B, C, V]."""
    logits_BCV = jnp.einsum(
        "bce,ve->bcv",
        feature_BCE,
        table_VE.astype(feature_BCE.dtype),
        preferred_element_type=jnp.float32,
    )
    return logits_BCV + bias_V.astype(jnp.float32)[None, None]


def _is_target(logits_BCV: jax.Array, target_BC: jax.Array) -> jax.Array:
    """[B, C, V] bool: whether a logit is the target's."""
    return lax.broadcasted_iota(jnp.int32, logits_BCV.shape, 2) == target_BC[..., None]


def _dense(
    options: SoftmaxOptions,
    feature_BKE: jax.Array,
    table_VE: jax.Array,
    bias_V: jax.Array,
    target_BK: jax.Array,
    weight_BK: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    logits_BKV = compute_logits(feature_BKE, table_VE, bias_V)
    lse_BK = jax.nn.logsumexp(logits_BKV, axis=-1)
    is_target = _is_target(logits_BKV, target_BK)
    target_logit_BK = jnp.sum(jnp.where(is_target, logits_BKV, 0.0), axis=-1)
    max_other_BK = jnp.max(jnp.where(is_target, -jnp.inf, logits_BKV), axis=-1)
    used_V = jnp.arange(len(bias_V)) < options.size
    mean_BK = jnp.where(used_V[None, None], logits_BKV, 0.0).sum(-1) / options.size
    confidence = 1 - options.smoothing
    loss_BK = lse_BK - confidence * target_logit_BK - options.smoothing * mean_BK
    loss_BK += options.z_loss * lse_BK**2
    correct_BK = jnp.where(target_logit_BK > max_other_BK, weight_BK, 0.0)
    return jnp.sum(loss_BK * weight_BK), correct_BK


def split_chunks(
    feature_BKE: jax.Array, num_rows: int, *others_BK: jax.Array
) -> tuple[jax.Array, ...]:
    """Arrays [B, K, ...] in chunks along K: each [chunks, B, C, ...].

    All chunks have the same size; the last is padded with zeros.

    Args:
      num_rows: V, which determines the size of a chunk's logits.
    """
    batch, positions = feature_BKE.shape[:2]
    count = min(MAX_CHUNKS, positions, -(-batch * positions * num_rows // CHUNK_LOGITS))
    size = -(-positions // count)

    def split(array: jax.Array) -> jax.Array:
        pad = [(0, 0), (0, count * size - positions)] + [(0, 0)] * (array.ndim - 2)
        chunks = jnp.pad(array, pad).reshape(batch, count, size, *array.shape[2:])
        return jnp.moveaxis(chunks, 1, 0)

    return tuple(split(array) for array in (feature_BKE, *others_BK))


def join_chunks(chunks: jax.Array, positions: int) -> jax.Array:
    """[B, K, ...] from chunks [chunks, B, C, ...]: the inverse of `split_chunks`."""
    joined = jnp.moveaxis(chunks, 0, 1)
    return joined.reshape(len(joined), -1, *joined.shape[3:])[:, :positions]


def sum_over_chunks(
    body: Callable[..., Any], chunks: tuple[jax.Array, ...], skip: bool
) -> tuple[Any, Any]:
    """Applies `body` to each chunk; sums its first results and stacks its second.

    Args:
      chunks: chunks of features, targets, weights and other arrays.
      skip: see `SoftmaxOptions`.
    """

    def step(sums: Any, chunk: tuple[jax.Array, ...]) -> tuple[Any, Any]:
        summand, stacked = body(chunk)
        return jax.tree.map(jnp.add, sums, summand), stacked

    def step_or_skip(sums: Any, chunk: tuple[jax.Array, ...]) -> tuple[Any, Any]:
        unused = lambda sums, chunk: (sums, zeros[1])  # noqa: E731
        return lax.cond(jnp.any(chunk[2] > 0), step, unused, sums, chunk)

    first = jax.tree.map(lambda chunk: chunk[0], chunks)
    if len(chunks[0]) == 1:
        sums, stacked = body(first)
        return sums, jax.tree.map(lambda leaf: leaf[None], stacked)
    shapes = jax.eval_shape(body, first)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return lax.scan(step_or_skip if skip else step, zeros[0], chunks)


def _chunked(
    options: SoftmaxOptions,
    feature_BKE: jax.Array,
    table_VE: jax.Array,
    bias_V: jax.Array,
    target_BK: jax.Array,
    weight_BK: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    @partial(jax.checkpoint, prevent_cse=False)
    def body(chunk: tuple[jax.Array, ...]) -> Any:
        feature, target, weight = chunk
        return _dense(options, feature, table_VE, bias_V, target, weight)

    chunks = split_chunks(feature_BKE, len(table_VE), target_BK, weight_BK)
    total, correct = sum_over_chunks(body, chunks, options.skip)
    return total, join_chunks(correct, target_BK.shape[1])


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _fused(
    options: SoftmaxOptions,
    feature_BKE: jax.Array,
    table_VE: jax.Array,
    bias_V: jax.Array,
    target_BK: jax.Array,
    weight_BK: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    return _chunked(options, feature_BKE, table_VE, bias_V, target_BK, weight_BK)


def _fused_forward(
    options: SoftmaxOptions,
    feature_BKE: jax.Array,
    table_VE: jax.Array,
    bias_V: jax.Array,
    target_BK: jax.Array,
    weight_BK: jax.Array,
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, ...]]:
    """The loss, and its gradients for a cotangent of one, as residuals."""
    table = constrain(table_VE.astype(feature_BKE.dtype), "vocab", None)
    target_row_BKE = jnp.take(table, target_BK, axis=0, mode="clip")
    target_row_BKE = constrain(target_row_BKE.astype(jnp.float32), *POSITION_AXES)
    feature32_BKE = feature_BKE.astype(jnp.float32)
    target_logit_BK = jnp.sum(feature32_BKE * target_row_BKE, axis=-1)
    target_logit_BK = target_logit_BK + bias_V[target_BK]
    sums, each = sum_over_chunks(
        partial(_fused_chunk, options, table, bias_V),
        split_chunks(feature_BKE, len(table), target_BK, weight_BK, target_logit_BK),
        options.skip,
    )
    total, table_grad_EV, bias_grad = sums
    # Transpose the sum, not each product: XLA:CPU has no such product in bfloat16.
    table_grad_EV = lax.optimization_barrier(table_grad_EV)
    loss_BK, feature_grad_BKE, correct_BK = (
        join_chunks(array, feature_BKE.shape[1]) for array in each
    )

    confidence = 1 - options.smoothing
    feature_grad_BKE -= confidence * weight_BK[..., None] * target_row_BKE
    row_grad_BKE = confidence * weight_BK[..., None] * feature32_BKE
    row_grad_BKE = constrain(row_grad_BKE, *POSITION_AXES)
    table_grad = constrain(table_grad_EV.T, "vocab", None)
    table_grad = table_grad.at[target_BK].add(-row_grad_BKE)
    bias_grad = bias_grad.at[target_BK].add(-confidence * weight_BK)
    if options.smoothing:
        used_V = jnp.where(jnp.arange(len(table)) < options.size, 1 / options.size, 0.0)
        smooth_V = options.smoothing * used_V
        mean_E = smooth_V @ table.astype(jnp.float32)
        mean_bias = smooth_V @ jnp.where(used_V > 0, bias_V, 0.0)
        mean_BK = feature32_BKE @ mean_E + mean_bias
        loss_BK -= mean_BK
        total -= jnp.sum(mean_BK * weight_BK)
        feature_grad_BKE -= weight_BK[..., None] * mean_E[None, None]
        sum_E = jnp.einsum("bk,bke->e", weight_BK, feature32_BKE)
        table_grad -= jnp.outer(smooth_V, sum_E)
        bias_grad -= smooth_V * jnp.sum(weight_BK)
    feature_grad = feature_grad_BKE.astype(feature_BKE.dtype)
    return (total, correct_BK), (feature_grad, table_grad, bias_grad, loss_BK)


def _fused_chunk(
    options: SoftmaxOptions,
    table_VE: jax.Array,
    bias_V: jax.Array,
    chunk: tuple[jax.Array, ...],
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """The chunk's sums (loss, gradients of table and bias) and arrays by position.

    The gradients lack the terms of the targets' rows and of smoothing.
    """
    feature_BCE, target_BC, weight_BC, target_logit_BC = chunk
    logits_BCV = compute_logits(feature_BCE, table_VE, bias_V)
    other_BCV = jnp.where(_is_target(logits_BCV, target_BC), -jnp.inf, logits_BCV)
    max_other_BC = jnp.max(other_BCV, axis=-1)
    max_BC = jnp.maximum(max_other_BC, target_logit_BC)
    e_BCV = jnp.exp(logits_BCV - max_BC[..., None])
    # Only the e that the products read is stored: XLA computes the sum with it.
    rounded_BCV = lax.optimization_barrier(e_BCV.astype(feature_BCE.dtype))
    if feature_BCE.dtype == e_BCV.dtype:
        e_BCV = rounded_BCV
    sum_BC = jnp.sum(e_BCV, axis=-1)
    lse_BC = jnp.log(sum_BC) + max_BC
    loss_BC = lse_BC + options.z_loss * lse_BC**2
    loss_BC -= (1 - options.smoothing) * target_logit_BC
    factor_BC = weight_BC * (1 + 2 * options.z_loss * lse_BC) / sum_BC

    dtype = feature_BCE.dtype
    dot = partial(jnp.einsum, preferred_element_type=jnp.float32)
    scaled_BCE = (feature_BCE.astype(jnp.float32) * factor_BC[..., None]).astype(dtype)
    # A transposed copy lets the product below read both operands row by row.
    scaled_EBC = lax.optimization_barrier(jnp.moveaxis(scaled_BCE, -1, 0))
    feature_grad_BCE = dot("bcv,ve->bce", rounded_BCV, table_VE) * factor_BC[..., None]
    sums = (
        jnp.sum(loss_BC * weight_BC),
        dot("ebc,bcv->ev", scaled_EBC, rounded_BCV),
        jnp.einsum("bc,bcv->v", factor_BC, rounded_BCV.astype(jnp.float32)),
    )
    correct_BC = jnp.where(target_logit_BC > max_other_BC, weight_BC, 0.0)
    return sums, (loss_BC, feature_grad_BCE, correct_BC)


def _fused_backward(
    options: SoftmaxOptions,
    grads: tuple[jax.Array, ...],
    cotangents: tuple[jax.Array, ...],
) -> tuple[jax.Array | None, ...]:
    scaled = [grad * cotangents[0].astype(grad.dtype) for grad in grads]
    feature, table, bias, weight = scaled
    return feature, table, bias, None, weight


_fused.defvjp(_fused_forward, _fused_backward)

Implementation = Callable[..., tuple[jax.Array, jax.Array]]
IMPLEMENTATIONS: dict[str, Implementation] = dict(
    dense=_dense, chunked=_chunked, fused=_fused
)
"""Name -> a function of (options, feature [B, K, E], table [V, E], bias [V], target
[B, K], weight [B, K]) that returns the weighted sum of losses and the weight of correct
positions [B, K]."""
