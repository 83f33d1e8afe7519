"""In which order examples are read: pure functions of a counter, without a state."""

from collections.abc import Collection
from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np

from research.data.counter_rng import GOLDEN_GAMMA, mix64
from research.errors import UserError

# N examples of an epoch, T entries of a schedule, C corpora of a mixture

ROUNDS = 4
LONGEST = 10_000
"""Entries of a schedule whose rates have no shorter period."""


def permute(place: np.ndarray, num: int, *, seed: int, epoch: np.ndarray | int):
    """The rows that stand at `place` in the shuffled order of an epoch.

    A balanced Feistel network on the smallest even number of bits that holds `num`,
    walked until it lands inside (Black and Rogaway 2002, section 4): a permutation of
    0 .. num - 1 for each (seed, epoch), at no memory.

    Args:
      place: [n] int64, each in 0 .. num - 1.
      num: N.
      seed: any int.
      epoch: [n] int64 or one int.

    Returns:
      [n] int64.
    """
    assert place.size == 0 or (place.min() >= 0 and place.max() < num)
    half = np.uint64(max(1, (int(num - 1).bit_length() + 1) // 2))
    low = (np.uint64(1) << half) - np.uint64(1)
    epoch = np.broadcast_to(np.asarray(epoch), place.shape).astype(np.uint64)
    key = _hash(epoch ^ _hash(np.full(1, seed % 2**64, np.uint64)))

    def walk(value, key):
        left, right = value >> half, value & low
        for turn in range(ROUNDS):
            left, right = (
                right,
                left ^ (_hash(right + key * np.uint64(2 * turn + 1)) & low),
            )
        return left << half | right

    row = walk(place.astype(np.uint64), key)
    while (outside := row >= num).any():
        row[outside] = walk(row[outside], key[outside])
    return row.astype(np.int64)


def turns(row: np.ndarray, epoch: np.ndarray) -> np.ndarray:
    """Whether a stream that is read both ways is read from its end on: bool.

    Half of the rows are, in turn from epoch to epoch.
    """
    return (row + epoch) % 2 == 1


def follow(
    step: np.ndarray, row: np.ndarray, *, rows: int, num: int, reverse: bool = False
):
    """What contiguous streams read: row r of step s + 1 goes on where that of s ended.

    An epoch has num // rows steps, in which each row reads as many examples in order.
    Up to rows - 1 examples are left over: the last ones in even epochs, the first ones
    in odd ones, so that each is read in every two.

    Args:
      step, row: [n] int64; a row is in 0 .. rows - 1.
      num: N, at least `rows`.
      reverse: rows that `turns` names read their part from its last example to its
        first.

    Returns:
      epoch, place: [n] int64.
    """
    assert num >= rows > 0
    steps = num // rows
    epoch, nth = np.divmod(step, steps)
    nth = np.where(turns(row, epoch) & reverse, steps - 1 - nth, nth)
    return epoch, row * steps + nth + epoch % 2 * (num - rows * steps)


def _hash(value: np.ndarray) -> np.ndarray:
    """A bijection of uint64 that hides its input; the input stays as it is."""
    return mix64(value + GOLDEN_GAMMA)


class Schedule(NamedTuple):
    """Which corpus of a mixture comes when: a table that is read round and round."""

    corpus: np.ndarray  # [T] int64, each corpus as often as its rate says
    before: np.ndarray  # [T] int64, how often that corpus came earlier in the table
    count: np.ndarray  # [C] int64, entries of each corpus

    def at(self, counter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The corpus of each example, and that corpus's own counter."""
        turn, entry = np.divmod(counter, len(self.corpus))
        corpus = self.corpus[entry]
        return corpus, turn * self.count[corpus] + self.before[entry]

    def counter(self, corpus: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The example's counter, of a corpus and its own counter; undoes `at`."""
        turn, nth = np.divmod(own, self.count[corpus])
        entry = np.argsort(self.corpus, kind="stable")
        first = np.cumsum(self.count) - self.count
        return turn * len(self.corpus) + entry[first[corpus] + nth]


def schedule(rates: Collection[float]) -> Schedule:
    """Interleaves corpora: none is ever a whole draw ahead of its rate, or behind.

    Each entry goes to the corpus whose next draw is due first, of those that it does
    not put ahead (Tijdeman 1980). Rates are read as the decimals they are written as
    and met exactly, unless their period is longer than 10,000: then to within one in
    10,000, by largest remainders.

    Args:
      rates: [C], each above 0; their sum is free.

    Raises:
      UserError: a rate is so small that its corpus would never be read.
    """
    if not all(rate > 0 for rate in rates):
        raise UserError(f"data.mixture: rates must be above 0, not {min(rates)}")
    shares = [Fraction(str(rate)) for rate in rates]
    shares = [share / sum(shares) for share in shares]
    period = lcm(*(share.denominator for share in shares))
    period = max(min(period, LONGEST), len(shares))
    count = np.array([int(share * period) for share in shares])
    rest = [share * period % 1 for share in shares]
    order = sorted(range(len(rest)), key=lambda corpus: (-rest[corpus], corpus))
    count[order[: period - count.sum()]] += 1
    if not count.all():
        raise UserError(
            f"data.mixture: the rate {min(rates)} is less than 1 in {LONGEST} of all"
        )

    taken = np.zeros_like(count)
    corpus, before = np.empty((2, period), np.int64)
    for entry in range(period):
        due = -(-(taken + 1) * period // count)
        due[period * taken >= (entry + 1) * count] = 2 * period  # it would be ahead
        chosen = np.argmin(due)
        corpus[entry], before[entry] = chosen, taken[chosen]
        taken[chosen] += 1
    assert (taken == count).all()
    return Schedule(corpus, before, count)
