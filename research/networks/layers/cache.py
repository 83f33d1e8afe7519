"""The keys and values of tokens that were read before, so that text can be continued.

A cache has slots. Each call of a stack writes its tokens to the next ones, the same in
all rows; whether a query attends to a slot follows from the arrays of its token, as in
a batch, and an empty slot has segment 0. Keys are kept as projected: what depends on
positions is applied when they are read.
"""

# B batch, L length, N slots, G heads of keys and values, K head width

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.networks.transformer import Network as Options

KEY_ARRAYS = ("position", "segment", "token_type", "rank")
"""The arrays of a group that are read of a key."""


class KeyValues(NamedTuple):
    """Of one attention layer; those of all layers have a first dim for them."""

    key: jax.Array  # [B, N, G, K]
    value: jax.Array

    def write(self, new: "KeyValues", start: jax.Array) -> "KeyValues":
        """With new ones [B, L, G, K] from slot `start` on."""
        return jax.tree.map(lambda old, own: write(old, own, start, -3), self, new)


class Cache(NamedTuple):
    """What a stack has read."""

    used: jax.Array  # [] int32: slots that are written; the next call writes from here
    group: Mapping[str, jax.Array]  # KEY_ARRAYS of all slots, each [B, N]
    states: KeyValues  # [layers, B, N, G, K]
    encoded: Any = None  # `Encoded` with the keys and values of all layers

    def write_group(self, group: Mapping, num_keys: int | None = None) -> "Cache":
        """With the arrays [B, L] of the group whose keys are written next."""
        arrays = {
            name: write(self.group[name], group[name][:, :num_keys], self.used, 1)
            for name in KEY_ARRAYS
        }
        return self._replace(group=arrays)

    def write_states(self, own: KeyValues, encoded: Any) -> "Cache":
        """With the keys and values [layers, B, L, G, K] of that group."""
        used = self.used + own.key.shape[-3]
        return Cache(used, self.group, self.states.write(own, self.used), encoded)

    def without_last(self, count: int) -> "Cache":
        """That without the last tokens; the next ones take their slots."""
        return self._replace(used=self.used - count)

    def select_rows(self, row: jax.Array) -> "Cache":
        """That of other rows [B] which differ in their tokens alone."""
        states = jax.tree.map(lambda x: jnp.take(x, row, 1, mode="clip"), self.states)
        return self._replace(states=states)

    def repeat_rows(self, count: int) -> "Cache":
        """That of each row `count` times in succession."""

        def repeat(tree, axis):
            return jax.tree.map(lambda x: jnp.repeat(x, count, axis), tree)

        encoded = self.encoded
        if encoded is not None:
            keys, segment = repeat(encoded.states, 1), repeat(encoded.segment, 0)
            encoded = encoded._replace(states=keys, segment=segment)
        return Cache(self.used, repeat(self.group, 0), repeat(self.states, 1), encoded)


def empty_cache(options: Options, rows: int, slots: int) -> Cache:
    """A cache in which nothing is written."""
    num_heads = options.num_kv_heads or options.heads
    shape = (options.layers, rows, slots, num_heads, options.key_width)
    state = jnp.zeros(shape, options.dtype)
    array = jnp.zeros((rows, slots), jnp.int32)
    group = dict.fromkeys(KEY_ARRAYS, array)
    return Cache(jnp.zeros((), jnp.int32), group, KeyValues(state, state))


def write(old: jax.Array, new: jax.Array, start: jax.Array, axis: int) -> jax.Array:
    """`old` with `new` from index `start` of an axis on."""
    return lax.dynamic_update_slice_in_dim(old, new.astype(old.dtype), start, axis)
