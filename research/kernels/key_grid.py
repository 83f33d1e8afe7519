"""The grid of the kernel that computes a tile of keys from its tiles of queries."""

# B batch, G key heads

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from research.kernels.plan import Settings
from research.kernels.tile import Inputs, Scalars, Tile


def key_grid(inputs: Inputs, settings: Settings) -> tuple[int, int, int, int]:
    """Rows, key heads, tiles of keys, and the most tiles of queries of a tile of keys.

    The tiles of queries of all heads that share the keys come one head after the other.
    """
    rows, num_key_heads, _, num_keys = inputs.key.shape
    group = inputs.query.shape[1] // num_key_heads
    num_steps = group * count_query_tiles(inputs, settings)
    return rows, num_key_heads, num_keys // settings.tiles.key, num_steps


def count_query_tiles(inputs: Inputs, settings: Settings) -> int:
    """The number of tiles of queries of one head."""
    return inputs.query.shape[-1] // settings.tiles.query


def key_tile(scalars: Scalars, grid: tuple[int, ...], num_query_tiles: int) -> Tile:
    """The tile at this step; its `query` may be one that attends to none of the keys.

    Args:
      num_query_tiles: `count_query_tiles`.
    """
    row, key_head, key, step = (pl.program_id(dim) for dim in range(4))
    group, at_key = grid[3] // num_query_tiles, row * grid[2] + key
    query = scalars.bounds.queries.start[at_key] + step % num_query_tiles
    head = key_head * group + step // num_query_tiles
    at_query = row * num_query_tiles + jnp.minimum(query, num_query_tiles - 1)
    return Tile(row, head, query, key, at_query, at_key)


def key_specs(inputs: Inputs, settings: Settings) -> Inputs:
    """The tiles of the inputs at each step.

    After the last tile of queries that is needed the index stays, so nothing is copied.
    """
    tiles, grid = settings.tiles, key_grid(inputs, settings)
    num_query_tiles = count_query_tiles(inputs, settings)
    group = grid[3] // num_query_tiles

    def query_index(row, key, step, scalars):
        queries, at_key = scalars.bounds.queries, row * grid[2] + key
        last = jnp.maximum(queries.stop[at_key] - 1, 0)
        return jnp.minimum(queries.start[at_key] + step % num_query_tiles, last)

    def of_query(size):
        return pl.BlockSpec(
            (None, None, size, tiles.query),
            lambda b, g, i, j, s: (
                b,
                g * group + j // num_query_tiles,
                0,
                query_index(b, i, j, s),
            ),
        )

    def integers(count):
        block = (None, count, tiles.query)
        return pl.BlockSpec(
            block, lambda b, g, i, j, s: (b, 0, query_index(b, i, j, s))
        )

    def of_all_heads(size):
        block = (None, size, tiles.key)
        return pl.BlockSpec(block, lambda b, g, i, j, s: (b, 0, i))

    relative = {}
    if inputs.query_rel is not None:
        width = inputs.query_rel.shape[2]
        relative = {"query_rel": of_query(width), "key_rel": of_all_heads(width)}
    return Inputs(
        query=of_query(inputs.query.shape[2]),
        key=key_spec(inputs.key.shape[2], settings),
        value=key_spec(inputs.value.shape[2], settings),
        interval=integers(inputs.interval.shape[1]),
        query_position=integers(1),
        key_position=of_all_heads(1),
        query_index=integers(1),
        key_index=of_all_heads(1),
        bias_bounds=pl.BlockSpec(memory_space=pltpu.SMEM),
        bias=pl.BlockSpec(memory_space=pltpu.SMEM),
        grad=of_query(inputs.value.shape[2]),
        log_sum=of_query(1),
        mean=of_query(1),
        **relative,
    )


def key_spec(width: int, settings: Settings) -> pl.BlockSpec:
    """The tile of an array [B, G, width, M] of keys."""
    block = (None, None, width, settings.tiles.key)
    return pl.BlockSpec(block, lambda b, g, i, j, s: (b, g, 0, i))
