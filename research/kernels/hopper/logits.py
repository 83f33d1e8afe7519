"""Mask, bias and dropout of a tile of logits in the kernels for Hopper.

A bias is a step function of distance, as T5's buckets are (Raffel et al. 2020, section
2.1). Where all distances of a tile are in the first step or all in the last, as in most
tiles of a long text, the bias is a scalar.
"""

# Q queries of a tile, N keys of a tile, P steps of the bias, H heads

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.kernels.counter_dropout import drop_by_hash
from research.kernels.hopper.block import Inputs, spread
from research.kernels.plan import Settings

HIDDEN = -1e38
"""The logit of a key that a query does not attend to."""
LOWEST = -1e30
"""The maximum of no logits: exp2(HIDDEN - LOWEST) is 0."""
LOG2_E = math.log2(math.e)
"""Exponentials and logarithms are to base 2, in which the hardware computes them."""


class Bias(NamedTuple):
    """The bias of a tile of logits."""

    edges: Any  # [P + 1], step p is of distances from edge p to below edge p + 1; in
    # global memory
    value: Any  # [P, H], in global memory
    head: jax.Array
    query_position: Any  # [Q], in shared memory
    key_position: Any  # [N]
    low: jax.Array  # the smallest distance, from query to key
    high: jax.Array  # the largest

    def of(self, piece: Any) -> jax.Array:
        return self.value[piece, self.head]

    def distance(self, shape: tuple[int, ...], query_dim: int = 0) -> jax.Array:
        key = spread(self.key_position[...], shape, 1 - query_dim)
        return key - spread(self.query_position[...], shape, query_dim)

    def one_piece(self, settings: Settings) -> tuple[jax.Array, jax.Array]:
        """Whether all distances are in the first step or in the last, and in which."""
        bounds = settings.bias_bounds
        is_last = self.low >= bounds[-1]
        return is_last | (self.high < bounds[0]), jnp.where(is_last, len(bounds), 0)


def num_pieces(settings: Settings) -> int:
    """P, the pieces of distances with one bias each."""
    return len(settings.bias_bounds) + 1


def bias_edges(settings: Settings) -> np.ndarray:
    """[P + 1] int32, the `edges` of `Bias`."""
    ends = np.iinfo(np.int32)
    return np.array([ends.min, *settings.bias_bounds, ends.max], np.int32)


def make_bias(
    inputs: Inputs, tile: tuple[jax.Array, ...], query_position: Any, key_position: Any
) -> Bias | None:
    """The bias of a tile; None if the inputs have no bias.

    Args:
      tile: row, head, and the indices of the tiles of queries and of keys.
    """
    if inputs.bias is None:
        return None
    row, head, query, key = tile
    low, high = (
        inputs.key_ends[row, end, key] - inputs.query_ends[row, 1 - end, query]
        for end in range(2)
    )
    positions = query_position, key_position
    return Bias(inputs.bias_edges, inputs.bias, head, *positions, low, high)


def add_bias(
    logits: jax.Array, bias: Bias | None, settings: Settings, *, query_dim: int = 0
) -> jax.Array:
    """The logits of a tile with their bias, if there is one."""
    if bias is None:
        return logits

    def add_pieces(logits):
        distance = bias.distance(logits.shape, query_dim)

        def select(piece, values):
            return jnp.where(distance >= bias.edges[piece], bias.of(piece), values)

        values = jnp.full(logits.shape, bias.of(0), jnp.float32)
        return logits + jax.lax.fori_loop(1, num_pieces(settings), select, values)

    is_one, piece = bias.one_piece(settings)
    return jax.lax.cond(is_one, lambda x: x + bias.of(piece), add_pieces, logits)


def add_bias_gradient(
    grad_QN: jax.Array, total_PQ: Any, bias: Bias | None, settings: Settings
) -> None:
    """Adds the gradient of a tile's logits, summed over keys, to that of each step."""
    if bias is None:
        return

    def add(piece, grad_QN):
        total_PQ[piece] += jnp.sum(grad_QN, axis=1)

    def add_pieces(grad_QN):
        distance_QN = bias.distance(grad_QN.shape)

        def add_piece(piece, _):
            is_in = distance_QN >= bias.edges[piece]
            is_in &= distance_QN < bias.edges[piece + 1]
            add(piece, jnp.where(is_in, grad_QN, 0.0))

        jax.lax.fori_loop(0, num_pieces(settings), add_piece, None)

    is_one, piece = bias.one_piece(settings)
    jax.lax.cond(is_one, lambda grad_QN: add(piece, grad_QN), add_pieces, grad_QN)


def mask_logits(
    logits: jax.Array, interval: Any, first_key: jax.Array, *, query_dim: int = 0
) -> jax.Array:
    """The logits of a tile, HIDDEN where a query does not attend to a key.

    Args:
      interval: [2, Q] in shared memory.
      first_key: index of the tile's first key.
    """
    key = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1 - query_dim) + first_key
    start, stop = (spread(interval[i], logits.shape, query_dim) for i in range(2))
    return jnp.where((start <= key) & (key < stop), logits, HIDDEN)


def drop(
    x: jax.Array,
    query_hash: Any,
    key_hash: Any,
    settings: Settings,
    *,
    query_dim: int = 0,
) -> jax.Array:
    """x after dropout, if there is dropout.

    Args:
      query_hash, key_hash: the hashes of the tile's queries and keys, in shared memory.
    """
    if not settings.dropout:
        return x
    hashes = spread(query_hash[...], x.shape, query_dim)
    hashes += spread(key_hash[...], x.shape, 1 - query_dim)
    return drop_by_hash(x, hashes, settings.dropout)
