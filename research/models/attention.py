"""Attention between places that see each other: from segment, rank and reach."""

# B batch, L queries, M keys, H heads, K head width, D width, P scored places

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.batch import visible
from research.models.layers import Dense, dropout
from research.models.options import Options
from research.models.positions import rotate

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
        return visible(group)[:, :, :keys]
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


def attend(query_BLHK, key_BMHK, value_BMHK, sight, *, scale, drop=None) -> jax.Array:
    """[B, L, H, K]: softmax attention in float32; a query without keys gets 0.

    Args:
      scale: of the logits, before the bias.
      drop: what is done to the probabilities [B, H, L, M].
    """
    score_BHLM = jnp.einsum(
        "blhk,bmhk->bhlm",
        query_BLHK * scale,
        key_BMHK,
        preferred_element_type=jnp.float32,
    )
    bias = jnp.broadcast_to(sight.bias, score_BHLM.shape)
    probability_BHLM = jax.nn.softmax(score_BHLM + bias, axis=-1)
    if drop is not None:
        probability_BHLM = drop(probability_BHLM)
    mixed_BLHK = jnp.einsum(
        "bhlm,bmhk->blhk", probability_BHLM.astype(value_BMHK.dtype), value_BMHK
    )
    return jnp.where(sight.seeing[:, :, None, None], mixed_BLHK, 0)


class Attention(nn.Module):
    """Many heads; the keys are the states' own or a memory's."""

    options: Options

    @nn.compact
    def __call__(self, states, sight, *, source=None, turn=None):
        """[B, L, D] from states [B, L, D].

        Args:
          source: [B, M, D] whose places are the keys; the states themselves if None.
          turn: rotary angles of queries and of keys, if any.
        """
        options = self.options
        count, width = options.heads, options.head_width
        inner = ("embed", "heads")
        query_scale = width**-0.5 if options.init == "t5" else 1.0

        def split(state):
            return state.reshape(*state.shape[:2], count, width)

        names = {"query": query_scale, "key": 1.0, "value": 1.0}
        dense = {
            name: Dense(options, options.width, inner, scale=scale, name=name)
            for name, scale in names.items()
        }
        source = states if source is None else source
        query = split(dense["query"](states))
        key, value = split(dense["key"](source)), split(dense["value"](source))
        if turn is not None:
            query, key = rotate(query, *turn[0]), rotate(key, *turn[1])
        drop = None
        if options.dropout and self.has_rng("dropout"):
            drop = lambda probability: dropout(self, probability)  # noqa: E731
        scale = 1.0 if options.init == "t5" else width**-0.5
        mixed = attend(query, key, value, sight, scale=scale, drop=drop)
        mixed = mixed.reshape(*mixed.shape[:2], options.width)
        out = ("heads", "embed")
        return Dense(options, options.width, out, residual=True, name="out")(mixed)
