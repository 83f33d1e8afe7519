"""The grid of kernels that compute a tile of queries from its tiles of keys."""

# B batch, H heads

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from research.kernels.intervals import Interval
from research.kernels.plan import Settings
from research.kernels.tile import Inputs, Scalars, Tile


def query_grid(inputs: Inputs, settings: Settings) -> tuple[int, int, int, int]:
    """Rows, heads, tiles of queries, and the most tiles of keys that one may need."""
    rows, heads, _, num_queries = inputs.query.shape
    num_keys = inputs.key.shape[-1]
    tiles = settings.tiles
    return rows, heads, num_queries // tiles.query, num_keys // tiles.key


def query_tile(scalars: Scalars, grid: tuple[int, ...]) -> Tile:
    """The tile at this step; its `key` may be one that no query attends to."""
    row, head, query, step = (pl.program_id(dim) for dim in range(4))
    at_query = row * grid[2] + query
    key = _key_of_step(scalars.bounds.keys, at_query, step)
    return Tile(row, head, query, key, at_query, row * grid[3] + key)


def _key_of_step(
    keys: Sequence[Interval], at_query: jax.Array, step: jax.Array
) -> jax.Array:
    """The tile of keys at a step, which goes through the intervals one after the other.

    After the last interval's end it is a tile that is in no interval.
    """
    (key, stop), *others = ((x.start[at_query], x.stop[at_query]) for x in keys)
    num_steps, key = stop - key, key + step
    for start, stop in others:
        key = jnp.where(step >= num_steps, start + step - num_steps, key)
        num_steps += stop - start
    return key


def query_specs(inputs: Inputs, settings: Settings) -> Inputs:
    """The tiles of the inputs at each step.

    After the last tile of keys that is needed the index stays, so nothing is copied.
    """
    tiles, grid = settings.tiles, query_grid(inputs, settings)
    group = inputs.query.shape[1] // inputs.key.shape[1]

    def key_index(row, query, step, scalars):
        keys, at_query = scalars.bounds.keys, row * grid[2] + query
        last = jnp.maximum(keys[-1].stop[at_query] - 1, 0)
        return jnp.minimum(_key_of_step(keys, at_query, step), last)

    def of_key(array):
        block = (None, None, array.shape[2], tiles.key)
        return pl.BlockSpec(
            block, lambda b, h, i, j, s: (b, h // group, 0, key_index(b, i, j, s))
        )

    def integers(count):
        block = (None, count, tiles.query)
        return pl.BlockSpec(block, lambda b, h, i, j, s: (b, 0, i))

    def of_all_heads(size):
        block = (None, size, tiles.key)
        return pl.BlockSpec(block, lambda b, h, i, j, s: (b, 0, key_index(b, i, j, s)))

    of_query, relative = partial(query_spec, settings=settings), {}
    if inputs.query_rel is not None:
        width = inputs.query_rel.shape[2]
        relative = {"query_rel": of_query(width), "key_rel": of_all_heads(width)}
    return Inputs(
        query=of_query(inputs.query.shape[2]),
        key=of_key(inputs.key),
        value=of_key(inputs.value),
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


def query_spec(width: int, settings: Settings) -> pl.BlockSpec:
    """The tile of an array [B, H, width, L] of queries."""
    block = (None, None, width, settings.tiles.query)
    return pl.BlockSpec(block, lambda b, h, i, j, s: (b, h, 0, i))
