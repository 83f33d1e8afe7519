"""A tile of queries and its tiles of keys, in the kernels that hold the queries."""

# B batch, K head width, Q queries of a tile, N keys of a tile, S tiles of queries

from typing import Any, NamedTuple

import jax
from jax.experimental import pallas as pl

from research.kernels.hopper.block import Inputs, block_indices, part, product
from research.kernels.hopper.logits import (
    LOG2_E,
    Bias,
    add_bias,
    make_bias,
    mask_logits,
)
from research.kernels.plan import Settings


class QueryBlock(NamedTuple):
    """Where this block's queries are, and which tiles of keys they attend to."""

    row: jax.Array
    head: jax.Array
    tile: jax.Array
    queries: Any  # a slice
    start: jax.Array  # the first tile of keys
    stop: jax.Array
    full_start: jax.Array  # the first that all queries attend to
    full_stop: jax.Array

    def key_arrays(self, inputs: Inputs, settings: Settings) -> list[tuple]:
        """Keys, values, hashes and positions of the tiles, for `over_tiles`."""
        size, width = settings.tiles.key, inputs.key.shape[-1]
        matrix = pl.BlockSpec((size, width), lambda index: (self.start + index, 0))
        vector = pl.BlockSpec((size,), lambda index: (self.start + index,))
        return [
            (inputs.key.at[self.row, :, self.head], matrix),
            (inputs.value.at[self.row, :, self.head], matrix),
            (part(inputs.key_hash, self.row), vector),
            (part(inputs.key_position, self.row), vector),
        ]

    def logits(
        self,
        index: jax.Array,
        query_QK: Any,
        key_NK: Any,
        interval_2Q: Any,
        positions: tuple[Any, Any],
        inputs: Inputs,
        settings: Settings,
    ) -> tuple[jax.Array, Bias | None]:
        """The logits [Q, N] of a tile of keys to base 2, with bias and mask; the bias.

        Args:
          index: the number of the tile, counted from the block's first.
          positions: the positions of queries [Q] and keys [N], if there is a bias.
        """
        at = self.start + index
        logits_QN = product(query_QK, key_NK, settings, transposed=True)
        bias = make_bias(inputs, (self.row, self.head, self.tile, at), *positions)
        logits_QN = add_bias(logits_QN, bias, settings)
        logits_QN = jax.lax.cond(
            (self.full_start <= at) & (at < self.full_stop),
            lambda x: x,
            lambda x: mask_logits(x, interval_2Q, at * settings.tiles.key),
            logits_QN * LOG2_E,
        )
        return logits_QN, bias


def query_block(bounds_B4S: Any, settings: Settings) -> QueryBlock:
    """The block of this step of the grid.

    Args:
      bounds_B4S: the ends of `keys` and of `full` of
        `research.kernels.intervals.TileBounds`.
    """
    row, head, tile = block_indices()
    queries = pl.ds(tile * settings.tiles.query, settings.tiles.query)
    bounds = (bounds_B4S[row, i, tile] for i in range(4))
    return QueryBlock(row, head, tile, queries, *bounds)
