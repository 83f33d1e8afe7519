"""Attention between places that see each other: from segment, rank and reach."""

# B batch, L queries, M keys, H heads, K head width, D width, P scored places

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.batch import attention_mask
from research.models.layers.dense import Dense, dropout
from research.models.layers.positions import rotate
from research.models.layers.relative import Relative
from research.models.options import Options

HIDDEN = -1e9
"""What is added to the logit of a key that a query does not see."""


class Sight(NamedTuple):
    """Who sees whom, made once for all layers of a stack."""

    bias: jax.Array  # [B, 1 or H, L, M] float32, added to the logits
    seeing: jax.Array  # [B, L] bool: the query sees some key; if not, it gets 0

    def at(self, scored: jax.Array) -> "Sight":
        """The rows of the queries at `scored` [B, P]."""
        rows = jnp.take_along_axis(
            self.bias, scored[:, None, :, None], axis=2, mode="clip"
        )
        return Sight(rows, jnp.take_along_axis(self.seeing, scored, 1, mode="clip"))


def sight(mask_BLM: jax.Array, bias_BHLM: jax.Array | None = None) -> Sight:
    """The sight of a boolean mask, with a relative bias where there is one."""
    hidden = jnp.where(mask_BLM, 0.0, HIDDEN)[:, None]
    if bias_BHLM is not None:
        hidden = jnp.where(mask_BLM[:, None], bias_BHLM, HIDDEN)
    return Sight(hidden, jnp.any(mask_BLM, axis=-1))


def mask(pattern: str, group: Mapping, keys: int | None = None) -> jax.Array:
    """[B, L, M] bool: who sees whom.

    "general" reads rank and reach and is the reference; "full" and "causal" are
    promises about them, under which segments (and the order of places) are enough.
    """
    if pattern == "general":
        return attention_mask(group)[:, :, :keys]
    segment = group["segment"]
    same = across(segment, segment[:, :keys])
    if pattern == "causal":
        query = jax.lax.broadcasted_iota(jnp.int32, same.shape, 1)
        key = jax.lax.broadcasted_iota(jnp.int32, same.shape, 2)
        same &= key <= query
    return same


def across(query_BL: jax.Array, key_BM: jax.Array) -> jax.Array:
    """[B, L, M] bool: both segments are one, and not padding."""
    return (query_BL[:, :, None] == key_BM[:, None, :]) & (key_BM[:, None, :] > 0)


def attend(
    query_BLHK, key_BMHK, value_BMHK, sight, *, far=None, drop=None
) -> jax.Array:
    """[B, L, H, K]: softmax attention in float32; a query without keys gets 0.

    Args:
      far: [B, L, H, F] of queries and [B, M, F] of keys, whose product is added to that
        of queries and keys, if any; the latter takes no gradient.
      drop: what is done to the probabilities [B, H, L, M], if anything.
    """
    states = (query_BLHK, key_BMHK, value_BMHK)
    query, key, value = (jnp.moveaxis(state, 2, 1) for state in states)
    if far is not None:
        far = jnp.moveaxis(far[0], 2, 1), far[1]
    if drop is None:
        mixed_BHLK = mix(query, key, value, sight.bias, far)
    else:
        score_BHLM = _score(query, key, sight.bias, far)
        probability = drop(jax.nn.softmax(score_BHLM, axis=-1)).astype(value.dtype)
        mixed_BHLK = jnp.einsum("bhlm,bhmk->bhlk", probability, value)
    seeing = sight.seeing[:, None, :, None]
    return jnp.moveaxis(jnp.where(seeing, mixed_BHLK, 0), 1, 2)


def _score(query_BHLK, key_BHMK, bias, far):
    score_BHLM = _dot("bhlk,bhmk->bhlm", query_BHLK, key_BHMK)
    if far is not None:
        score_BHLM += _dot("bhlf,bmf->bhlm", *far)
    return score_BHLM + jnp.broadcast_to(bias, score_BHLM.shape)


_dot = partial(jnp.einsum, preferred_element_type=jnp.float32)


@jax.custom_vjp
def mix(query_BHLK, key_BHMK, value_BHMK, bias, far=None) -> jax.Array:
    """softmax(query . key + bias + far) . value, which never divides a [B, H, L, M].

    The sum of exponentials divides what is mixed, and the gradient takes the softmax's
    mean from the outcome (Dao et al. 2022, appendix B.2), so that each pass writes one
    [B, H, L, M] beside its product.
    """
    return _mix_forward(query_BHLK, key_BHMK, value_BHMK, bias, far)[0]


def _mix_forward(query_BHLK, key_BHMK, value_BHMK, bias, far):
    score_BHLM = _score(query_BHLK, key_BHMK, bias, far)
    e_BHLM = jnp.exp(score_BHLM - jnp.max(score_BHLM, axis=-1, keepdims=True))
    share_BHL = 1 / jnp.sum(e_BHLM, axis=-1)
    e_BHLM = e_BHLM.astype(value_BHMK.dtype)
    mixed_BHLK = _dot("bhlm,bhmk->bhlk", e_BHLM, value_BHMK) * share_BHL[..., None]
    mixed_BHLK = mixed_BHLK.astype(value_BHMK.dtype)
    place_BMF = None if far is None else far[1]
    kept = (query_BHLK, key_BHMK, value_BHMK, bias, place_BMF)
    return mixed_BHLK, (kept, e_BHLM, share_BHL, mixed_BHLK)


def _mix_backward(kept, slope_BHLK):
    (query, key, value, bias, place_BMF), e_BHLM, share_BHL, mixed_BHLK = kept
    slope_BHLK = slope_BHLK.astype(jnp.float32) * share_BHL[..., None]
    mean_BHL = jnp.sum(slope_BHLK * mixed_BHLK.astype(jnp.float32), axis=-1)
    slope_BHLK = slope_BHLK.astype(value.dtype)
    lift_BHLM = _dot("bhlk,bhmk->bhlm", slope_BHLK, value)
    score_BHLM = e_BHLM.astype(jnp.float32) * (lift_BHLM - mean_BHL[..., None])
    heads = tuple(n for n, size in enumerate(bias.shape) if size == 1)
    bias_slope = jnp.sum(score_BHLM, axis=heads, keepdims=True)
    score_BHLM = score_BHLM.astype(query.dtype)
    far = None
    if place_BMF is not None:
        far = _dot("bhlm,bmf->bhlf", score_BHLM, place_BMF).astype(query.dtype), None
    return (
        _dot("bhlm,bhmk->bhlk", score_BHLM, key).astype(query.dtype),
        _dot("bhlm,bhlk->bhmk", score_BHLM, query).astype(key.dtype),
        _dot("bhlm,bhlk->bhmk", e_BHLM, slope_BHLK).astype(value.dtype),
        bias_slope.astype(bias.dtype),
        far,
    )


mix.defvjp(_mix_forward, _mix_backward)


class Attention(nn.Module):
    """Many heads; the keys are the states' own or a memory's."""

    options: Options

    @nn.compact
    def __call__(self, states, sight, *, source=None, places=None):
        """[B, L, D] from states [B, L, D].

        Args:
          source: [B, M, D] whose places are the keys; the states themselves if None.
          places: where queries and keys are, as `relative.places` says, if it matters.
        """
        options = self.options
        count, width = options.heads, options.head_width
        inner, outer = ("embed", "heads"), ("heads", "embed")
        t5 = options.init == "t5"
        scales = {"query": width**-0.5 if t5 else 1.0, "key": 1.0, "value": 1.0}
        dense = partial(Dense, options, options.width)
        if options.position == "relative":
            dense = partial(dense, bias=False)

        def split(name, state):
            state = dense(inner, scale=scales[name], name=name)(state)
            return state.reshape(*state.shape[:2], count, width)

        source = states if source is None else source
        query = split("query", states)
        key, value = split("key", source), split("value", source)
        if places is not None and options.position == "rotary":
            query, key = rotate(query, *places[0].turn), rotate(key, *places[1].turn)
        far, scale = None, 1.0 if t5 else width**-0.5
        if places is not None and "relative" in (
            options.position,
            options.token_type_encoding,
        ):
            relative = Relative(options, scale, name="relative")
            query, key, far = relative(query, key, places)
        else:
            query = query * scale
        drop = None
        if options.dropout and self.has_rng("dropout"):
            drop = lambda probability: dropout(self, probability)  # noqa: E731
        mixed = attend(query, key, value, sight, far=far, drop=drop)
        mixed = mixed.reshape(*mixed.shape[:2], options.width)
        return dense(outer, residual=True, name="out")(mixed)
