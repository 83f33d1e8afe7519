"""Attention masks as one interval of sorted keys a query, and the tiles they touch.

Query q attends to key k iff their segments are equal and not 0, and
rank[k] <= reach[q]. Sorted by (segment, rank), the keys of a query thus are
consecutive: those of smaller segments come before them, those of its segment that it
may not attend to after them. Mems, to which all queries attend, come before all keys:
the keys of the first segment follow on them. Queries sorted by their intervals have
neighbours with similar ones, so that a tile of queries leaves out whole tiles of keys.
"""

# B batch, L queries, M keys, N mems, Q tiles of queries, T tiles of keys

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Intervals(NamedTuple):
    """The keys start <= index < stop of each query, as indices of the sorted keys."""

    start: jax.Array  # [B, L] int32
    stop: jax.Array  # [B, L] int32; not above start: the query attends to no key
    key_order: jax.Array | None  # [B, M] int32, index of each sorted key; None: 0 to M
    mems: jax.Array | None = None  # [B, L] int32: sorted keys before `start` to which
    # the query attends, too: 0 <= index < mems; its interval then is not empty


class TileBounds(NamedTuple):
    """The tiles that have to be computed, as half-open ranges of tiles."""

    start: jax.Array  # [B, Q] int32, tiles of keys to which a tile of queries attends
    stop: jax.Array  # [B, Q]
    full_start: jax.Array  # [B, Q], those to which all of its queries attend entirely
    full_stop: jax.Array  # [B, Q]
    query_start: jax.Array  # [B, T], tiles of queries that attend to a tile of keys
    query_stop: jax.Array  # [B, T]


def sorted_intervals(
    query_segment: jax.Array,
    reach: jax.Array,
    key_segment: jax.Array,
    rank: jax.Array,
    mems_segment: jax.Array | None = None,
) -> Intervals:
    """The intervals of arbitrary patterns, by a sort of keys and queries together.

    Args:
      query_segment, reach: [B, L] int32; segment 0 is padding.
      key_segment, rank: [B, M] int32.
      mems_segment: [B, N] int32 of mems, which precede the keys in the arrays; None:
        there are none. Queries outside padding attend to all that are not 0.
    """
    if mems_segment is not None:
        is_mem = mems_segment > 0
        mems = jnp.where(is_mem, _MEMS, 0).astype(key_segment.dtype)
        key_segment = jnp.concatenate([mems, key_segment], axis=1)
        rank = jnp.concatenate([jnp.zeros_like(mems), rank], axis=1)
    num_queries, num_keys = reach.shape[1], rank.shape[1]
    segment = _padding_last(jnp.concatenate([key_segment, query_segment], axis=1))
    value = jnp.concatenate([rank, reach], axis=1)
    index = jax.lax.broadcasted_iota(jnp.int32, value.shape, 1)
    # The sort is stable, so a query comes after the keys whose rank equals its reach.
    segment, _, index = jax.lax.sort((segment, value, index), dimension=1, num_keys=2)
    is_key = (index < num_keys).astype(jnp.int32)
    num_keys_so_far = jnp.cumsum(is_key, axis=1)
    start = _first_of_run(segment, num_keys_so_far - is_key)
    stop = jnp.where(segment == _PADDING, start, num_keys_so_far)
    # Back to the order of the arrays: queries behind keys.
    _, start, stop = jax.lax.sort((index, start, stop), dimension=1, num_keys=1)
    _, key_order = jax.lax.sort((1 - is_key, index), dimension=1, num_keys=1)
    intervals = Intervals(
        start[:, -num_queries:], stop[:, -num_queries:], key_order[:, :num_keys]
    )
    if mems_segment is None:
        return intervals
    num_mems = jnp.sum(is_mem, axis=1, keepdims=True, dtype=jnp.int32)
    return _with_mems(intervals, num_mems, query_segment > 0)


def _with_mems(intervals, num_mems_B1, sees_mems):
    """Intervals that begin with the mems where they adjoin them, others beside them."""
    start, stop = intervals.start, intervals.stop
    empty = stop <= start
    adjoins = sees_mems & (empty | (start == num_mems_B1))
    return intervals._replace(
        start=jnp.where(adjoins, 0, start),
        stop=jnp.where(sees_mems & empty, num_mems_B1, stop),
        mems=jnp.where(sees_mems & ~adjoins, num_mems_B1, 0),
    )


def run_intervals(segment: jax.Array, *, causal: bool) -> Intervals:
    """The intervals of self-attention in array order, without a sort.

    Args:
      segment: [B, L] int32, of queries and keys alike; the positions of a segment are
        consecutive. 0 is padding.
      causal: a query attends to keys up to its own index; else to all of its segment.
    """
    index = jax.lax.broadcasted_iota(jnp.int32, segment.shape, 1)
    start = _first_of_run(segment, index)
    stop = index + 1
    if not causal:
        flipped = _first_of_run(jnp.flip(segment, 1), jnp.flip(-stop, 1))
        stop = -jnp.flip(flipped, 1)
    return Intervals(start, jnp.where(segment > 0, stop, start), None)


_MEMS = -1
"""Their segment in a sort."""
_PADDING = jnp.iinfo(jnp.int32).max


def _padding_last(segment):
    return jnp.where(segment == 0, _PADDING, segment)


def _first_of_run(segment, ascending):
    """Of each position the value of `ascending` where its run of segments begins."""
    lowest = jnp.full_like(segment[:, :1], jnp.iinfo(jnp.int32).min)
    is_first = segment != jnp.concatenate([lowest, segment[:, :-1]], axis=1)
    return jax.lax.cummax(jnp.where(is_first, ascending, lowest), axis=1)


def sorted_queries(intervals: Intervals) -> jax.Array:
    """[B, L] int32: the index of each query, sorted by interval, those without last."""
    empty = intervals.stop <= intervals.start
    start = jnp.where(empty, _PADDING, intervals.start)
    index = jax.lax.broadcasted_iota(jnp.int32, start.shape, 1)
    operands = start, intervals.stop, index
    return jax.lax.sort(operands, dimension=1, num_keys=2)[2]


def tile_bounds(
    start: jax.Array,
    stop: jax.Array,
    mems: jax.Array | None = None,
    *,
    num_keys: int,
    query_tile: int,
    key_tile: int,
) -> TileBounds:
    """The tiles that hold a key of a query, and those between two that do.

    Args:
      start, stop, mems: [B, L] int32, the queries' intervals in the order of the tiles,
        a multiple of `query_tile`.
      num_keys: M, a multiple of `key_tile`.
    """
    start, stop = (x.reshape(len(x), -1, query_tile) for x in (start, stop))
    empty = stop <= start
    lowest = start
    if mems is not None:
        lowest = jnp.where(mems.reshape(start.shape) > 0, 0, start)
    first = jnp.min(jnp.where(empty, num_keys, lowest), axis=2)
    last = jnp.max(jnp.where(empty, 0, stop), axis=2)
    tile_start, tile_stop = first // key_tile, -(-last // key_tile)
    touched = last > first
    tile_start = jnp.where(touched, tile_start, 0)
    tile_stop = jnp.where(touched, tile_stop, 0)
    # Tiles between the last start and the first stop: all queries attend to them.
    full_start = -(-jnp.max(start, axis=2) // key_tile)
    full_stop = jnp.min(jnp.where(empty, 0, stop), axis=2) // key_tile
    key_index = jnp.arange(num_keys // key_tile, dtype=jnp.int32)[None, None]
    touches = (tile_start[..., None] <= key_index) & (key_index < tile_stop[..., None])
    num_tiles = touches.shape[1]
    query_index = jax.lax.broadcasted_iota(jnp.int32, touches.shape, 1)
    query_start = jnp.min(jnp.where(touches, query_index, num_tiles), axis=1)
    query_stop = jnp.max(jnp.where(touches, query_index + 1, 0), axis=1)
    query_start = jnp.minimum(query_start, query_stop)
    return TileBounds(
        tile_start, tile_stop, full_start, full_stop, query_start, query_stop
    )
