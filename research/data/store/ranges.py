"""Ranges of the numbers in large memory-mapped arrays."""

import numpy as np

CHUNK = 2**20
"""Number of values that are compared at a time, to save memory."""


def in_range(
    array: np.ndarray, low: int, high: int, *, ascending: bool = False
) -> bool:
    """Whether all numbers of a 1-D array are in low .. high - 1.

    Args:
      ascending: also require that they never decrease.
    """
    for begin in range(0, len(array), CHUNK):
        chunk = array[begin : begin + CHUNK + 1]  # with the first of the next chunk
        if chunk.min() < low or chunk.max() >= high:
            return False
        if ascending and (chunk[1:] < chunk[:-1]).any():
            return False
    return True


def spans_in_shards(
    start: np.ndarray, length: np.ndarray, shard_offsets: np.ndarray, *, least: int
) -> bool:
    """Whether all spans have at least `least` tokens and lie within one shard each.

    Args:
      start, length: [N], in tokens of a stream.
      shard_offsets: [shards + 1], as of `Stream`.
    """
    if not in_range(start, 0, int(shard_offsets[-1])):
        return False
    for begin in range(0, len(start), CHUNK):
        first = start[begin : begin + CHUNK]
        size = length[begin : begin + CHUNK]
        end = shard_offsets[np.searchsorted(shard_offsets, first, side="right")]
        if (size < least).any() or (first + size > end).any():
            return False
    return True
