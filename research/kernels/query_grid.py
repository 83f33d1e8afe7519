"""The grid of kernels that compute a tile of queries from its tiles of keys."""

# B batch, H heads, K head width, P pieces

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from research.kernels.plan import Settings
from research.kernels.tile import Inputs, Scalars, Tile


def query_grid(inputs: Inputs, settings: Settings) -> tuple[int, int, int, int]:
    """Rows, heads, tiles of queries, and the tiles of keys that one may need."""
    rows, heads, _, num_queries = inputs.query.shape
    num_keys = inputs.key.shape[-1]
    tiles = settings.tiles
    return rows, heads, num_queries // tiles.query, num_keys // tiles.key


def query_tile(scalars: Scalars, grid: tuple[int, ...]) -> Tile:
    """The tile at this step; its `key` may be one that no query attends to."""
    row, head, query, step = (pl.program_id(dim) for dim in range(4))
    at_query = row * grid[2] + query
    key = scalars.bounds.start[at_query] + step
    return Tile(row, head, query, key, at_query, row * grid[3] + key)


def query_specs(inputs: Inputs, settings: Settings) -> Inputs:
    """The tiles of the inputs at each step.

    After the last tile of keys that is needed the index stays, so nothing is copied.
    """
    tiles, grid = settings.tiles, query_grid(inputs, settings)
    width, group = inputs.query.shape[2], inputs.query.shape[1] // inputs.key.shape[1]

    def key_index(row, query, step, scalars):
        bounds, at_query = scalars.bounds, row * grid[2] + query
        last = jnp.maximum(bounds.stop[at_query] - 1, 0)
        return jnp.minimum(bounds.start[at_query] + step, last)

    def of_query(size):
        block = (None, None, size, tiles.query)
        return pl.BlockSpec(block, lambda b, h, i, j, s: (b, h, 0, i))

    def of_key():
        block = (None, None, width, tiles.key)
        return pl.BlockSpec(
            block, lambda b, h, i, j, s: (b, h // group, 0, key_index(b, i, j, s))
        )

    def integers(count):
        block = (None, count, tiles.query)
        return pl.BlockSpec(block, lambda b, h, i, j, s: (b, 0, i))

    key_position = pl.BlockSpec(
        (None, 1, tiles.key), lambda b, h, i, j, s: (b, 0, key_index(b, i, j, s))
    )
    return Inputs(
        query=of_query(width),
        key=of_key(),
        value=of_key(),
        interval=integers(2),
        query_position=integers(1),
        key_position=key_position,
        query_index=integers(1),
        key_index=key_position,
        bias_bounds=pl.BlockSpec(memory_space=pltpu.SMEM),
        bias=pl.BlockSpec(memory_space=pltpu.SMEM),
        grad=of_query(width),
        log_sum=of_query(1),
        mean=of_query(1),
    )
