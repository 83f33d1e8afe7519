"""The shuffled order of an epoch: a permutation that needs no memory and no state."""

import functools

import numpy as np

from research.data.counter_rng import GOLDEN_GAMMA, mix64

# n rows, N examples of an epoch, C corpora of a mixture

FEISTEL_ROUNDS = 4


def permute(position: np.ndarray, num: int, *, seed: int, epoch: np.ndarray | int):
    """The examples at the given positions in the shuffled order of an epoch.

    A balanced Feistel network on the smallest even number of bits that holds `num`,
    applied again until the result is below `num` (cycle walking: Black and Rogaway
    2002, section 4). It is a permutation of 0 .. num - 1 for each (seed, epoch).

    Args:
      position: [n] int64, each in 0 .. num - 1.
      num: N.
      seed: any int.
      epoch: [n] int64 or one int.

    Returns:
      [n] int64.
    """
    assert position.size == 0 or (position.min() >= 0 and position.max() < num)
    half = max(1, (int(num - 1).bit_length() + 1) // 2)
    example = np.empty(position.shape, np.int64)
    epoch = np.broadcast_to(np.asarray(epoch), position.shape)
    for each in np.unique(epoch).tolist():
        own = epoch == each
        example[own] = _permute(position[own], num, half, _rounds(seed, each, half))
    return example


def _permute(
    value: np.ndarray, num: int, half: int, rounds: tuple[np.ndarray, ...]
) -> np.ndarray:
    """The network on `value` [n] int64 of 2 * half bits, until each is below `num`."""

    def feistel(value):
        left, right = value >> half, value & ((1 << half) - 1)
        for table in rounds:
            left, right = right, left ^ table[right]
        return left << half | right

    example = feistel(value)
    outside = np.flatnonzero(example >= num)
    while len(outside):
        again = example[outside] = feistel(example[outside])
        outside = outside[again >= num]
    return example


@functools.lru_cache(maxsize=16)
def _rounds(seed: int, epoch: int, half: int) -> tuple[np.ndarray, ...]:
    """The round functions of `half` bits, each as its values [2**half] int32."""
    epoch = np.array([epoch]).astype(np.uint64)
    key = _hash(epoch ^ _hash(np.full(1, seed % 2**64, np.uint64)))
    right = np.arange(2**half, dtype=np.uint64)
    return tuple(
        (_hash(right + key * np.uint64(2 * i + 1)) & right[-1]).astype(np.int32)
        for i in range(FEISTEL_ROUNDS)
    )


def _hash(value: np.ndarray) -> np.ndarray:
    """A bijection of uint64; `value` is not changed."""
    return mix64(value + GOLDEN_GAMMA)
