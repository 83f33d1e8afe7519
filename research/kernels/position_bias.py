"""A bias of the logits that is a step function of distance, in a TPU kernel.

T5's buckets are such steps (Raffel et al. 2020, section 2.1). Where all distances of a
tile are in the first step or all in the last, as in most tiles of a long text, the bias
is a scalar. In other tiles each distance is compared with each bound, a few keys at a
time, so that distances and biases stay in registers.
"""

# Q queries of a tile, N keys of a tile, R keys at a time, P steps of the bias

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from research.kernels.plan import LANES, Distances, Tiles

MAX_KEYS_AT_A_TIME = 32


class BiasRefs(NamedTuple):
    """What a kernel holds for the bias."""

    bounds: Any  # [P - 1] distances at which the next step begins
    value: Any  # [P, H]
    query_position: Any  # [1, Q]
    key_position: Any  # [1, N]
    column: Any  # scratch: the keys' positions along sublanes
    logits: Any  # scratch [N, Q]


def bias_scratch(tiles: Tiles) -> list:
    """The scratch arrays of `BiasRefs`."""
    column = pltpu.VMEM((tiles.key, LANES), jnp.int32)
    return [column, pltpu.VMEM((tiles.key, tiles.query), jnp.float32)]


def add_bias(
    logits_NQ: jax.Array, refs: BiasRefs, ends: Distances, tile: Any
) -> jax.Array:
    """The logits of a tile with their bias.

    Args:
      ends: flat arrays of the smallest and largest positions of tiles.
      tile: `research.kernels.tile.Tile`.
    """
    refs.logits[...] = logits_NQ
    is_first, is_last = _one_piece(refs, ends, tile)

    @pl.when(is_first | is_last)
    def one_piece():
        piece = jnp.where(is_last, refs.bounds.shape[0], 0)
        refs.logits[...] += refs.value[piece, tile.head]

    @pl.when(jnp.logical_not(is_first | is_last))
    def many_pieces():
        def add(rows, distance_RQ):
            def select(piece, bias_RQ):
                value = refs.value[piece + 1, tile.head]
                return jnp.where(distance_RQ >= refs.bounds[piece], value, bias_RQ)

            first_RQ = jnp.full(distance_RQ.shape, refs.value[0, tile.head])
            num_bounds = refs.bounds.shape[0]
            refs.logits[rows, :] += jax.lax.fori_loop(0, num_bounds, select, first_RQ)

        _for_some_keys(refs, add)

    return refs.logits[...]


def add_bias_gradient(
    grad_NQ: jax.Array, out_PQ: Any, refs: BiasRefs, ends: Distances, tile: Any
) -> None:
    """Adds the gradient of a tile's logits, summed over keys, to that of each step."""
    refs.logits[...] = grad_NQ
    is_first, is_last = _one_piece(refs, ends, tile)

    def add(piece, grad):
        out_PQ[pl.ds(piece, 1), :] += jnp.sum(grad, axis=0, keepdims=True)

    @pl.when(is_first | is_last)
    def one_piece():
        add(jnp.where(is_last, refs.bounds.shape[0], 0), refs.logits[...])

    @pl.when(jnp.logical_not(is_first | is_last))
    def many_pieces():
        def add_pieces(rows, distance_RQ):
            def split(piece, rest_RQ):
                """Adds the gradient of this step, and returns that of later steps."""
                is_later = distance_RQ >= refs.bounds[piece]
                add(piece, jnp.where(is_later, 0.0, rest_RQ))
                return jnp.where(is_later, rest_RQ, 0.0)

            num_bounds, grad_RQ = refs.bounds.shape[0], refs.logits[rows, :]
            add(num_bounds, jax.lax.fori_loop(0, num_bounds, split, grad_RQ))

        _for_some_keys(refs, add_pieces)


def _one_piece(refs, ends, tile):
    """Whether all distances of a tile are in the first step, and if in the last."""
    low = ends.key_low[tile.at_key] - ends.query_high[tile.at_query]
    high = ends.key_high[tile.at_key] - ends.query_low[tile.at_query]
    return high < refs.bounds[0], low >= refs.bounds[refs.bounds.shape[0] - 1]


def _for_some_keys(refs, function):
    """`function(rows, distance [R, Q])` for all keys of the tile, R at a time."""
    num_keys = refs.logits.shape[0]
    at_a_time = min(MAX_KEYS_AT_A_TIME, num_keys)
    position_1N = refs.key_position[...]
    refs.column[...] = jnp.broadcast_to(position_1N, (LANES, num_keys)).T

    def run(step, _):
        rows = pl.ds(pl.multiple_of(step * at_a_time, at_a_time), at_a_time)
        function(rows, refs.column[rows, :1] - refs.query_position[...])

    jax.lax.fori_loop(0, num_keys // at_a_time, run, None)
