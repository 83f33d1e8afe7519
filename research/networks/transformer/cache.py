"""The key-value cache: keys and values of the tokens that were read before.

A cache has slots. Each call of a stack writes its tokens to the next slots, which are
the same in all rows. Whether a query attends to a slot follows from the arrays of its
token, as in a batch; an empty slot has segment 0. Keys are cached as projected, and
positions are applied when they are read.
"""

# B batch, L length, N slots, G heads of keys and values, K head width

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.networks.transformer.options import TransformerOptions as Options

KEY_ARRAYS = ("position", "segment", "token_type", "rank")
"""The arrays of a group on which attention to its keys depends."""


class KeyValues(NamedTuple):
    """Keys and values of one attention layer, or of all, stacked over the layers."""

    key: jax.Array  # [B, N, G, K]
    value: jax.Array

    def write(self, new: "KeyValues", start: jax.Array) -> "KeyValues":
        """The keys and values with `new` [B, L, G, K] written from slot `start` on."""
        return jax.tree.map(lambda old, own: write(old, own, start, -3), self, new)


class Cache(NamedTuple):
    """What a stack stores about the tokens that it has read."""

    used: jax.Array  # [] int32: number of slots in use; the next call writes from here
    group: Mapping[str, jax.Array]  # KEY_ARRAYS of all slots, each [B, N]
    states: KeyValues  # [layers, B, N, G, K]
    encoded: Any = None  # `Encoded` with the keys and values of all layers

    def write_group(self, group: Mapping, num_keys: int | None = None) -> "Cache":
        """The cache with the arrays [B, L] of the group whose keys are written next."""
        arrays = {
            name: write(self.group[name], group[name][:, :num_keys], self.used, 1)
            for name in KEY_ARRAYS
        }
        return self._replace(group=arrays)

    def write_states(self, own: KeyValues, encoded: Any) -> "Cache":
        """The cache with the keys and values [layers, B, L, G, K] of that group."""
        used = self.used + own.key.shape[-3]
        return Cache(used, self.group, self.states.write(own, self.used), encoded)

    def without_last(self, count: int) -> "Cache":
        """The cache without the last tokens; the next ones take their slots."""
        return self._replace(used=self.used - count)

    def select_rows(self, row: jax.Array) -> "Cache":
        """The cache of the rows with these indices [B]; rows differ only in tokens."""
        states = jax.tree.map(lambda x: jnp.take(x, row, 1, mode="clip"), self.states)
        return self._replace(states=states)

    def repeat_rows(self, count: int) -> "Cache":
        """The cache with each row repeated `count` times in succession."""

        def repeat(tree, axis):
            return jax.tree.map(lambda x: jnp.repeat(x, count, axis), tree)

        encoded = self.encoded
        if encoded is not None:
            keys, segment = repeat(encoded.states, 1), repeat(encoded.segment, 0)
            encoded = encoded._replace(states=keys, segment=segment)
        return Cache(self.used, repeat(self.group, 0), repeat(self.states, 1), encoded)


def empty_cache(options: Options, rows: int, slots: int) -> Cache:
    """A cache without tokens."""
    num_heads = options.num_kv_heads or options.heads
    shape = (options.layers, rows, slots, num_heads, options.key_width)
    state = jnp.zeros(shape, options.dtype)
    array = jnp.zeros((rows, slots), jnp.int32)
    group = dict.fromkeys(KEY_ARRAYS, array)
    return Cache(jnp.zeros((), jnp.int32), group, KeyValues(state, state))


def write(old: jax.Array, new: jax.Array, start: jax.Array, axis: int) -> jax.Array:
    """`old` with `new` written from index `start` on along a dim."""
    return lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), start, axis)
