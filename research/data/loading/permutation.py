"""The shuffled order of an epoch: a permutation that needs no memory and no state."""

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
    half = np.uint64(max(1, (int(num - 1).bit_length() + 1) // 2))
    low = (np.uint64(1) << half) - np.uint64(1)
    epoch = np.broadcast_to(np.asarray(epoch), position.shape).astype(np.uint64)
    key = _hash(epoch ^ _hash(np.full(1, seed % 2**64, np.uint64)))

    def feistel(value, key):
        left, right = value >> half, value & low
        for i in range(FEISTEL_ROUNDS):
            round_key = key * np.uint64(2 * i + 1)
            left, right = right, left ^ (_hash(right + round_key) & low)
        return left << half | right

    example = feistel(position.astype(np.uint64), key)
    while (outside := example >= num).any():
        example[outside] = feistel(example[outside], key[outside])
    return example.astype(np.int64)


def _hash(value: np.ndarray) -> np.ndarray:
    """A bijection of uint64; `value` is not changed."""
    return mix64(value + GOLDEN_GAMMA)
