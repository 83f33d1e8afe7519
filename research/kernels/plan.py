"""What all layers of a stack share in interval attention: orders, tiles and bounds."""

# B batch, L queries, M keys, Q tiles of queries, N tiles of keys, H heads

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from research.kernels.intervals import (
    Intervals,
    TileBounds,
    sorted_queries,
    tile_bounds,
)

LANES = 128
MAX_TILE = 512
"""The most queries or keys of a tile on a TPU: a tile of logits is 1 MiB of VMEM."""


class Tiles(NamedTuple):
    """The numbers of queries and keys of a tile; on a TPU multiples of LANES."""

    query: int
    key: int


class Settings(NamedTuple):
    """What a kernel is compiled for."""

    tiles: Tiles
    bias_bounds: tuple[int, ...] = ()  # distances at which the next step begins
    interpret: Any = False  # on Hopper JAX's parameters of its interpreter
    dropout: float = 0.0  # rate of dropout of the probabilities
    lengths: tuple[int, int] = (0, 0)  # L and M whose FLOPs count


class Order(NamedTuple):
    """A permutation of the rows' positions."""

    index: jax.Array  # [B, L] int32, the array's index of the n-th in sorted order
    inverse: jax.Array  # [B, L] int32, the number in sorted order of each index


class Distances(NamedTuple):
    """Positions, for a bias of the logits that depends on their distance."""

    query: jax.Array  # [B, L] int32, in the order and length of the tiles
    key: jax.Array  # [B, M]
    query_low: jax.Array  # [B, Q], smallest position of a tile
    query_high: jax.Array  # [B, Q], largest
    key_low: jax.Array  # [B, N]
    key_high: jax.Array  # [B, N]


class Plan(NamedTuple):
    """The integers that the kernels read; all arrays [B, ...], so it can be sharded."""

    interval: jax.Array  # [B, 2 x intervals, L] start and stop of each interval, in the
    # order and length of the tiles
    bounds: TileBounds
    query_order: Order | None  # None: as they are
    key_order: Order | None
    distances: Distances | None  # None: no bias


def default_tiles(num_queries: int, num_keys: int) -> Tiles:
    """Tiles for a TPU: the fewest that cover the length, of MAX_TILE at most."""

    def tile(length):
        count = -(-length // MAX_TILE)
        return -(-length // (count * LANES)) * LANES

    return Tiles(tile(num_queries), tile(num_keys))


def make_plan(
    intervals: Intervals,
    num_keys: int,
    tiles: Tiles,
    positions: tuple[jax.Array, jax.Array] | None = None,
) -> Plan:
    """The plan of queries with these intervals.

    Queries are sorted if keys are, so that each tile of queries reads few tiles of
    keys. Queries that fill up the last tile attend to nothing.

    Args:
      num_keys: M.
      positions: the positions of queries [B, L] and keys [B, M], if there is a bias.
    """
    query_order = key_order = None
    if intervals.key_order is not None:
        query_order = _order(sorted_queries(intervals))
        key_order = _order(intervals.key_order)
    each = jax.tree.map(
        lambda number: fill_tile(permute(number, query_order), tiles.query),
        intervals.each,
    )
    bounds = tile_bounds(
        each,
        num_keys=-(-num_keys // tiles.key) * tiles.key,
        query_tile=tiles.query,
        key_tile=tiles.key,
    )
    distances = None
    if positions is not None:
        query = fill_tile(permute(positions[0], query_order), tiles.query, "edge")
        key = fill_tile(permute(positions[1], key_order), tiles.key, "edge")
        query_tiles = query.reshape(len(query), -1, tiles.query)
        key_tiles = key.reshape(len(key), -1, tiles.key)
        ends = [
            f(x, axis=2) for x in (query_tiles, key_tiles) for f in (jnp.min, jnp.max)
        ]
        distances = Distances(query, key, *ends)
    interval = jnp.stack(jax.tree.leaves(each), axis=1)
    return Plan(interval, bounds, query_order, key_order, distances)


def _order(index_BL: jax.Array) -> Order:
    place = jax.lax.broadcasted_iota(jnp.int32, index_BL.shape, 1)
    operands = index_BL, place
    return Order(index_BL, jax.lax.sort(operands, dimension=1, num_keys=1)[1])


def permute(x: jax.Array, order: Order | None, *, back: bool = False) -> jax.Array:
    """x [B, L, ...] in sorted order, or with `back` from it to the original order."""
    if order is None:
        return x
    index = order.inverse if back else order.index
    index = jnp.expand_dims(index, tuple(range(2, x.ndim)))
    return jnp.take_along_axis(x, index, axis=1, mode="clip")


def fill_tile(x: jax.Array, tile: int, mode: str = "constant") -> jax.Array:
    """x [..., L] padded so that its last dim is a multiple of the tile."""
    rest = -x.shape[-1] % tile
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, rest)], mode=mode) if rest else x
