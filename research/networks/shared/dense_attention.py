"""Attention with a dense mask: the reference for all kernels."""

# B batch, L queries, M keys, H heads, K head width, F width of relative logits,
# P scored positions, N mems

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from research.contract.batch import rank_mask
from research.networks.shared.products import einsum, matmul

HIDDEN = -1e9
"""Added to the logit of a key that a query does not attend to."""


class AttentionInputs(NamedTuple):
    """What decides which query attends to which key, for every implementation.

    Query q attends to key k only if their segments are equal and not 0 (padding). The
    pattern adds a condition: "general" that rank[k] is in an interval of q's
    (`research.contract.batch.rank_mask`); "causal" k <= q as indices of the arrays;
    "full" none. Every query outside padding also attends to all mems outside padding,
    which come before the other keys; with a window only to those inside it.
    """

    query: Mapping[str, jax.Array]  # some of a batch's input arrays, [B, L] each
    key: Mapping[str, jax.Array]  # the same, [B, M]; in cross-attention only segments
    pattern: str = "full"  # full | causal | general
    mems_segment: jax.Array | None = None  # [B, N]; 0: no query attends to it
    bias: Any = None  # of the logits: a `transformer.positions.Bias`
    start: jax.Array | None = None  # [] int32: index of the first query among the keys,
    # which are the slots of a cache; None: 0, without a cache
    window: int = 0  # mems and keys to each side that a query attends to, in the order
    # of the arrays without padding; 0: all. Must be 0 with the general pattern
    clamp_len: int = 0  # the largest distance of relative positions; 0: none


class DenseMask(NamedTuple):
    """The mask and the bias as they are added to logits."""

    bias: jax.Array  # [B, 1 or H, L, M] float32
    has_keys: jax.Array  # [B, L] bool; a query without keys outputs 0

    def at(self, scored_BP: jax.Array) -> "DenseMask":
        """The rows of the scored queries."""
        index = scored_BP[:, None, :, None]
        bias = jnp.take_along_axis(self.bias, index, axis=2, mode="clip")
        has_keys = jnp.take_along_axis(self.has_keys, scored_BP, 1, mode="clip")
        return DenseMask(bias, has_keys)


def dense_mask(inputs: AttentionInputs) -> DenseMask:
    """The dense mask of all queries and keys, with the bias of positions, if any.

    It is made once for all layers: otherwise each layer would scatter its gradient into
    T5's table.
    """
    mask_BLM, bias_BHLM = attention_mask(inputs), None
    if inputs.bias is not None:
        both = inputs.query["position"], inputs.key["position"]
        bias_BHLM = inputs.bias.between(*both)
    return additive_mask(mask_BLM, bias_BHLM)


def attention_mask(inputs: AttentionInputs) -> jax.Array:
    """[B, L, N + M] bool: whether the query attends to the mem or key."""
    query, key = inputs.query, inputs.key
    mask_BLM = same_segment(query["segment"], key["segment"])
    if inputs.pattern == "general":
        mask_BLM &= rank_mask(query, key)
    elif inputs.pattern == "causal":
        query_index = jax.lax.broadcasted_iota(jnp.int32, mask_BLM.shape, 1)
        query_index += 0 if inputs.start is None else inputs.start
        key_index = jax.lax.broadcasted_iota(jnp.int32, mask_BLM.shape, 2)
        mask_BLM &= key_index <= query_index
    if inputs.mems_segment is not None:
        mems = (query["segment"] > 0)[:, :, None] & (inputs.mems_segment > 0)[:, None]
        mask_BLM = jnp.concatenate([mems, mask_BLM], axis=-1)
    return mask_BLM & _window_mask(inputs) if inputs.window else mask_BLM


def _window_mask(inputs: AttentionInputs) -> jax.Array:
    """[B, L, N + M] bool: query and key are at most `window` tokens apart."""
    segment, start = inputs.key["segment"], inputs.start
    if inputs.mems_segment is not None:
        segment = jnp.concatenate([inputs.mems_segment, segment], axis=1)
        start = inputs.mems_segment.shape[1]
    place_BM = place_BL = jnp.cumsum(segment > 0, axis=1, dtype=jnp.int32)
    if start is not None:
        length = inputs.query["segment"].shape[1]
        place_BL = jax.lax.dynamic_slice_in_dim(place_BM, start, length, axis=1)
    return jnp.abs(place_BM[:, None, :] - place_BL[:, :, None]) <= inputs.window


def same_segment(query_BL: jax.Array, key_BM: jax.Array) -> jax.Array:
    """[B, L, M] bool: both have the same segment, which is not padding."""
    return (query_BL[:, :, None] == key_BM[:, None, :]) & (key_BM[:, None, :] > 0)


def additive_mask(mask_BLM: jax.Array, bias_BHLM: jax.Array | None = None) -> DenseMask:
    """The `DenseMask` of a boolean mask and a bias of the logits."""
    bias = jnp.where(mask_BLM, 0.0, HIDDEN)[:, None]
    if bias_BHLM is not None:
        bias = jnp.where(mask_BLM[:, None], bias_BHLM, HIDDEN)
    return DenseMask(bias, jnp.any(mask_BLM, axis=-1))


def dense_attention(
    query_BLHK: jax.Array,
    key_BMHK: jax.Array,
    value_BMHK: jax.Array,
    mask: DenseMask,
    *,
    relative: tuple[jax.Array, jax.Array] | jax.Array | None = None,
    drop: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
    """[B, L, H, K]: softmax attention in float32; a query without keys outputs 0.

    Args:
      query_BLHK: already scaled.
      relative: optional extra logits [B, H, L, M]; or their factors q_rel [B, L, H, F]
        and k_rel [B, M, F] of q_rel @ k_rel, where no gradient flows to k_rel.
      drop: dropout of the probabilities [B, H, L, M]; None: no dropout.
    """
    states = (query_BLHK, key_BMHK, value_BMHK)
    query, key, value = (jnp.moveaxis(state, 2, 1) for state in states)
    if isinstance(relative, jax.Array):
        mask, relative = mask._replace(bias=mask.bias + relative), None
    if relative is not None:
        relative = jnp.moveaxis(relative[0], 2, 1), relative[1]
    if drop is None:
        out_BHLK = softmax_attention(query, key, value, mask.bias, relative)
    else:
        logits_BHLM = _logits(query, key, mask.bias, relative)
        probability = drop(jax.nn.softmax(logits_BHLM, axis=-1)).astype(value.dtype)
        out_BHLK = matmul(probability, value, value.dtype)
    has_keys = mask.has_keys[:, None, :, None]
    return jnp.moveaxis(jnp.where(has_keys, out_BHLK, 0), 1, 2)


def _logits(query_BHLK, key_BHMK, bias, relative):
    logits_BHLM = einsum("bhlk,bhmk->bhlm", query_BHLK, key_BHMK)
    if relative is not None:
        logits_BHLM += einsum("bhlf,bmf->bhlm", *relative)
    return logits_BHLM + jnp.broadcast_to(bias, logits_BHLM.shape)


@jax.custom_vjp
def softmax_attention(
    query_BHLK: jax.Array,
    key_BHMK: jax.Array,
    value_BHMK: jax.Array,
    bias: jax.Array,
    relative: tuple[jax.Array, jax.Array] | None = None,
) -> jax.Array:
    """softmax(query @ key + bias + q_rel @ k_rel) @ value, of shape [B, H, L, K].

    The output, not the probabilities, is divided by the sum of exponentials, and the
    backward pass computes the softmax's mean from the output (Dao et al. 2022, appendix
    B.2). So each pass writes only one [B, H, L, M] array in addition to its products.
    """
    return _softmax_attention_fwd(query_BHLK, key_BHMK, value_BHMK, bias, relative)[0]


def _softmax_attention_fwd(query_BHLK, key_BHMK, value_BHMK, bias, relative):
    logits_BHLM = _logits(query_BHLK, key_BHMK, bias, relative)
    exp_BHLM = jnp.exp(logits_BHLM - jnp.max(logits_BHLM, axis=-1, keepdims=True))
    scale_BHL = 1 / jnp.sum(exp_BHLM, axis=-1)
    exp_BHLM = exp_BHLM.astype(value_BHMK.dtype)
    out_BHLK = einsum("bhlm,bhmk->bhlk", exp_BHLM, value_BHMK) * scale_BHL[..., None]
    out_BHLK = out_BHLK.astype(value_BHMK.dtype)
    key_rel_BMF = None if relative is None else relative[1]
    inputs = (query_BHLK, key_BHMK, value_BHMK, bias, key_rel_BMF)
    return out_BHLK, (inputs, exp_BHLM, scale_BHL, out_BHLK)


def _softmax_attention_bwd(residuals, grad_BHLK):
    inputs, exp_BHLM, scale_BHL, out_BHLK = residuals
    query, key, value, bias, key_rel_BMF = inputs
    grad_BHLK = grad_BHLK.astype(jnp.float32) * scale_BHL[..., None]
    mean_BHL = jnp.sum(grad_BHLK * out_BHLK.astype(jnp.float32), axis=-1)
    grad_BHLK = grad_BHLK.astype(value.dtype)
    grad_exp_BHLM = einsum("bhlk,bhmk->bhlm", grad_BHLK, value)
    centred_BHLM = grad_exp_BHLM - mean_BHL[..., None]
    grad_logits_BHLM = exp_BHLM.astype(jnp.float32) * centred_BHLM
    broadcast_dims = tuple(dim for dim, size in enumerate(bias.shape) if size == 1)
    grad_bias = jnp.sum(grad_logits_BHLM, axis=broadcast_dims, keepdims=True)
    grad_logits_BHLM = grad_logits_BHLM.astype(query.dtype)
    grad_relative = None
    if key_rel_BMF is not None:
        grad_q_rel_BHLF = einsum("bhlm,bmf->bhlf", grad_logits_BHLM, key_rel_BMF)
        grad_relative = grad_q_rel_BHLF.astype(query.dtype), None
    return (
        einsum("bhlm,bhmk->bhlk", grad_logits_BHLM, key).astype(query.dtype),
        einsum("bhlm,bhlk->bhmk", grad_logits_BHLM, query).astype(key.dtype),
        einsum("bhlm,bhlk->bhmk", exp_BHLM, grad_BHLK).astype(value.dtype),
        grad_bias.astype(bias.dtype),
        grad_relative,
    )


softmax_attention.defvjp(_softmax_attention_fwd, _softmax_attention_bwd)
