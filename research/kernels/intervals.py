"""Attention masks as intervals of sorted keys a query, and the tiles they touch.

Query q attends to key k iff their segments are equal and not 0, and the key's rank is
in an interval of the query's. Sorted by (segment, rank), the keys of an interval are
consecutive: keys of smaller segments, and keys of the same segment with a lower rank,
come before them. Mems, to which all queries attend, come before all keys, and the keys
of the first segment follow them directly. Queries are sorted by their intervals, so
that neighbours have similar ones and a tile of queries skips whole tiles of keys.
"""

# B batch, L queries, M keys, N mems, Q tiles of queries, T tiles of keys

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Interval(NamedTuple):
    """start <= index < stop; empty where the stop is not above the start."""

    start: jax.Array
    stop: jax.Array


class Intervals(NamedTuple):
    """The keys that each query attends to, as indices of the sorted keys."""

    each: tuple[Interval, ...]  # [B, L] int32; the first is empty only if all are
    key_order: jax.Array | None  # [B, M] int32, index of each sorted key; None: 0 to M


class TileBounds(NamedTuple):
    """The tiles that have to be computed."""

    keys: tuple[Interval, ...]  # [B, Q] int32, tiles of keys to which a tile of queries
    # attends; ascending and disjoint
    full: Interval  # [B, Q], tiles to which all of its queries attend entirely
    queries: Interval  # [B, T], tiles of queries that attend to a tile of keys


def sorted_intervals(
    query_segment: jax.Array,
    ranks: Sequence[tuple[jax.Array | None, jax.Array]],
    key_segment: jax.Array,
    rank: jax.Array,
    mems_segment: jax.Array | None = None,
    *,
    window: int = 0,
) -> Intervals:
    """The intervals of arbitrary patterns, by a sort of keys and queries together.

    Args:
      query_segment: [B, L] int32; segment 0 is padding.
      ranks: the lowest and the highest rank [B, L] int32 of each interval of ranks that
        a query attends to; None: there is no lowest one.
      key_segment, rank: [B, M] int32.
      mems_segment: [B, N] int32 of mems, which precede the keys in the arrays; None:
        there are none. Queries outside padding attend to all that are not 0.
      window: sorted mems and keys before the last of the first interval that a query
        attends to; 0: all.
    """
    if mems_segment is not None:
        is_mem = mems_segment > 0
        mems = jnp.where(is_mem, _MEMS, 0).astype(key_segment.dtype)
        key_segment = jnp.concatenate([mems, key_segment], axis=1)
        rank = jnp.concatenate([jnp.zeros_like(mems), rank], axis=1)
    lows = [low for low, _ in ranks if low is not None]
    highs = [high for _, high in ranks]
    segments = [
        *[query_segment] * len(lows),
        key_segment,
        *[query_segment] * len(highs),
    ]
    segment = _padding_last(jnp.concatenate(segments, axis=1))
    value = jnp.concatenate([*lows, rank, *highs], axis=1)
    index = jax.lax.broadcasted_iota(jnp.int32, value.shape, 1)
    # The sort is stable: a lowest rank comes before the keys that have it, a highest
    # one after them.
    segment, _, index = jax.lax.sort((segment, value, index), dimension=1, num_keys=2)
    num_queries, num_keys = query_segment.shape[1], rank.shape[1]
    first_key = len(lows) * num_queries
    is_key = index < first_key + num_keys
    if lows:
        is_key &= index >= first_key
    is_key = is_key.astype(jnp.int32)
    num_keys_so_far = jnp.cumsum(is_key, axis=1)
    begin = _first_of_run(segment, num_keys_so_far - is_key)
    end = jnp.where(segment == _PADDING, begin, num_keys_so_far)
    # Back to the order of the arrays.
    _, begin, end = jax.lax.sort((index, begin, end), dimension=1, num_keys=1)
    _, key_order = jax.lax.sort((1 - is_key, index), dimension=1, num_keys=1)
    if lows:
        key_order -= first_key
    each, at_low, at_high = [], 0, first_key + num_keys
    for low, _ in ranks:
        start, stop = (x[:, at_high : at_high + num_queries] for x in (begin, end))
        if low is not None:
            start = end[:, at_low : at_low + num_queries]
            at_low += num_queries
        at_high += num_queries
        each.append(Interval(start, stop))
    if mems_segment is not None:
        num_mems = jnp.sum(is_mem, axis=1, keepdims=True, dtype=jnp.int32)
        stop = jnp.where(query_segment > 0, num_mems, 0)
        each.append(Interval(jnp.zeros_like(stop), stop))
    if window:
        first = each[0].stop - 1 - window
        start = (jnp.minimum(jnp.maximum(x.start, first), x.stop) for x in each)
        each = [x._replace(start=own) for x, own in zip(each, start, strict=True)]
    return Intervals(_joined(each), key_order[:, :num_keys])


def _joined(each: Sequence[Interval]) -> tuple[Interval, ...]:
    """The same keys, with intervals that adjoin the first one merged into it."""
    first, *others = each
    rest = []
    for other in others:
        empty, other_empty = (x.stop <= x.start for x in (first, other))
        (low, last_start), (first_stop, high) = (
            (jnp.minimum(*ends), jnp.maximum(*ends))
            for ends in zip(first, other, strict=True)
        )
        adjoins = (last_start <= first_stop) & ~empty & ~other_empty
        start, stop = (
            jnp.where(empty, x, y) for x, y in zip(other, first, strict=True)
        )
        first = Interval(jnp.where(adjoins, low, start), jnp.where(adjoins, high, stop))
        is_moved = adjoins | empty
        rest.append(other._replace(stop=jnp.where(is_moved, other.start, other.stop)))
    return first, *rest


def run_intervals(segment: jax.Array, *, causal: bool, window: int = 0) -> Intervals:
    """The intervals of self-attention in array order, without a sort.

    Args:
      segment: [B, L] int32, of queries and keys alike; the positions of a segment are
        consecutive. 0 is padding.
      causal: a query attends to keys up to its own index; else to all of its segment.
      window: keys to each side that a query attends to; 0: all of these.
    """
    index = jax.lax.broadcasted_iota(jnp.int32, segment.shape, 1)
    start = _first_of_run(segment, index)
    stop = index + 1
    if not causal:
        flipped = _first_of_run(jnp.flip(segment, 1), jnp.flip(-stop, 1))
        stop = -jnp.flip(flipped, 1)
    if window:
        start = jnp.maximum(start, index - window)
        stop = jnp.minimum(stop, index + window + 1)
    interval = Interval(start, jnp.where(segment > 0, stop, start))
    return Intervals((interval,), None)


_MEMS = -1
"""The segment of mems in a sort."""
_PADDING = jnp.iinfo(jnp.int32).max


def _padding_last(segment):
    return jnp.where(segment == 0, _PADDING, segment)


def _first_of_run(segment, ascending):
    """For each position, the value of `ascending` where its run of a segment begins."""
    lowest = jnp.full_like(segment[:, :1], jnp.iinfo(jnp.int32).min)
    is_first = segment != jnp.concatenate([lowest, segment[:, :-1]], axis=1)
    return jax.lax.cummax(jnp.where(is_first, ascending, lowest), axis=1)


def sorted_queries(intervals: Intervals) -> jax.Array:
    """[B, L] int32: the index of each query, sorted by its first interval.

    Those that attend to no key are last.
    """
    start, stop = intervals.each[0]
    start = jnp.where(stop <= start, _PADDING, start)
    index = jax.lax.broadcasted_iota(jnp.int32, start.shape, 1)
    operands = start, stop, index
    return jax.lax.sort(operands, dimension=1, num_keys=2)[2]


def tile_bounds(
    each: Sequence[Interval], *, num_keys: int, query_tile: int, key_tile: int
) -> TileBounds:
    """The tiles that hold a key of a query, and those between two keys of an interval.

    Args:
      each: [B, L] int32, the queries' intervals in the order of the tiles, a multiple
        of `query_tile`; the first is empty only if all are.
      num_keys: M, a multiple of `key_tile`.
    """
    each = [
        Interval(*(x.reshape(len(x), -1, query_tile) for x in interval))
        for interval in each
    ]
    keys = _disjoint([_touched_tiles(x, num_keys, key_tile) for x in each])
    # Tiles between the last start and the first stop: all queries attend to them.
    start, stop = each[0]
    first_stop = jnp.min(jnp.where(stop <= start, 0, stop), axis=2)
    full = Interval(-(-jnp.max(start, axis=2) // key_tile), first_stop // key_tile)
    key_index = jnp.arange(num_keys // key_tile, dtype=jnp.int32)[None, None]
    touches = reduce(
        jnp.logical_or,
        [
            (x.start[..., None] <= key_index) & (key_index < x.stop[..., None])
            for x in keys
        ],
    )
    num_tiles = touches.shape[1]
    query_index = jax.lax.broadcasted_iota(jnp.int32, touches.shape, 1)
    query_start = jnp.min(jnp.where(touches, query_index, num_tiles), axis=1)
    query_stop = jnp.max(jnp.where(touches, query_index + 1, 0), axis=1)
    query_start = jnp.minimum(query_start, query_stop)
    return TileBounds(keys, full, Interval(query_start, query_stop))


def _touched_tiles(interval_BQL: Interval, num_keys: int, key_tile: int) -> Interval:
    """[B, Q]: the tiles from the first to the last key of the queries of a tile."""
    start, stop = interval_BQL
    empty = stop <= start
    first = jnp.min(jnp.where(empty, num_keys, start), axis=2)
    last = jnp.max(jnp.where(empty, 0, stop), axis=2)
    touched = last > first
    return Interval(
        jnp.where(touched, first // key_tile, 0),
        jnp.where(touched, -(-last // key_tile), 0),
    )


def _disjoint(ranges: Sequence[Interval]) -> tuple[Interval, ...]:
    """The union of the intervals, as ascending intervals that do not overlap."""
    if len(ranges) == 1:
        return tuple(ranges)
    ends = (jnp.stack(each) for each in zip(*ranges, strict=True))
    start, stop = jax.lax.sort(tuple(ends), dimension=0, num_keys=1)
    result = [Interval(start[0], stop[0])]
    for number in range(1, len(ranges)):
        begin = jnp.maximum(start[number], result[-1].stop)
        result.append(Interval(begin, jnp.maximum(stop[number], begin)))
    return tuple(result)
