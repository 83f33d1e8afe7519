"""Counter-hash noise: random choices that are pure functions of (key, role, place).

A row's noise depends on its key alone: not on the other rows, nor on the padding.
"""

# B batch, L length, P parts of a row, S spans, W words

import zlib

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
INDEX_BITS = 20
"""Low bits of a hash that give way to a place, so that sorting also orders places."""

INDEX = np.uint64(2**INDEX_BITS - 1)
LAST = np.uint64(2**64 - 1)


def mix(value: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014), a bijection, in place."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


def row_key(seed: int, epoch: np.ndarray, example: np.ndarray) -> np.ndarray:
    """[B] uint64: a row's key, a hash of the run's seed, [B] epoch, [B] example."""
    key = np.full(np.shape(example), np.uint64(seed % 2**64))
    for counter in (epoch, example):
        key = mix(key + GOLDEN) + np.asarray(counter).astype(np.uint64)
    return mix(key + GOLDEN)


def bits(key: np.ndarray, role: str, n: int) -> np.ndarray:
    """[B, n] uint64, uniform: the first n numbers of the row's stream for this role."""
    start = mix(key ^ mix(np.array([zlib.crc32(role.encode())], np.uint64) + GOLDEN))
    steps = np.arange(1, n + 1, dtype=np.uint64) * GOLDEN
    return mix(start[:, None] + steps)


def uniform(key: np.ndarray, role: str, n: int) -> np.ndarray:
    """[B, n] float64, uniform in [0, 1)."""
    return (bits(key, role, n) >> np.uint64(11)) * 2.0**-53


def permutation(key: np.ndarray, role: str, n: int) -> np.ndarray:
    """[B, n] int32: each row a permutation of 0..n-1, all equally likely.

    It ranks hashes, so the first places keep their relative order for any n.
    """
    place = np.arange(n, dtype=np.uint64)
    score = bits(key, role, n) & ~INDEX | place
    score.sort(axis=1)
    rank = np.empty(score.shape, np.int32)
    by_rank = (score & INDEX).astype(np.intp)
    np.put_along_axis(rank, by_rank, place.astype(np.int32)[None], axis=1)
    return rank


def choose(key: np.ndarray, role: str, candidate: np.ndarray, count) -> np.ndarray:
    """[B, L] bool: `count` [B] of the candidates [B, L], all subsets equally likely.

    Rows with fewer candidates than `count` give them all.
    """
    count = np.minimum(count, candidate.sum(axis=1))
    score = np.where(candidate, bits(key, role, candidate.shape[1]), LAST)
    ranked = np.sort(score, axis=1)
    least = np.zeros((len(score), 1), np.uint64)
    ranked = np.concatenate([least, ranked], axis=1)
    threshold = np.take_along_axis(ranked, count[:, None], axis=1)
    return (score <= threshold) & (count > 0)[:, None]


def choose_words(
    key: np.ndarray, role: str, start: np.ndarray, candidate: np.ndarray, budget
) -> np.ndarray:
    """[B, L] bool: whole words in random order, each that still fits the budget.

    A word runs from a `start` [B, L] (or the first candidate) to the next one, or to
    what is no candidate [B, L]. A word longer than what is left of `budget` [B]
    tokens is skipped and the next one tried.
    """
    first, size = words(start, candidate)
    row = first // start.shape[1]
    num_words = np.bincount(row, minlength=len(start))
    place = np.arange(num_words.max(initial=0))
    held = place < num_words[:, None]
    score = np.full(held.shape, LAST)
    score[held] = bits(key, role, start.shape[1]).reshape(-1)[first] & ~INDEX
    score = np.where(held, score | place.astype(np.uint64), LAST)
    score.sort(axis=1)
    word = np.minimum(score & INDEX, np.uint64(max(len(place) - 1, 0))).astype(np.intp)
    size_BW = np.zeros(held.shape, np.int64)
    size_BW[held] = size
    ordered = np.where(held, np.take_along_axis(size_BW, word, axis=1), 0)
    taken = np.zeros(held.shape, bool)
    np.put_along_axis(taken, np.where(held, word, place), fit(ordered, budget), axis=1)
    chosen = np.zeros(start.shape, bool)
    chosen[candidate] = np.repeat(taken[held], size)
    return chosen


def words(start: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Words of the candidates: flat place of the first token [W], tokens [W].

    start, candidate: [B, L] bool. Together the words are exactly the candidates.
    """
    before = np.zeros_like(candidate)
    before[:, 1:] = candidate[:, :-1]
    first = candidate & (start | ~before)
    edge = np.flatnonzero(first | ~candidate)
    size = np.diff(edge, append=candidate.size)
    # A word that ends with its row ends at the next row's first edge: its place 0.
    held = first.reshape(-1)[edge]
    return edge[held], size[held]


def fit(size: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """[B, W] bool: what a greedy walk takes of sizes [B, W] (0: nothing there).

    Each is taken if it fits what is left of `budget` [B], else skipped. Every round
    takes all up to the first that does not fit, which is then out of the question.
    """
    taken = np.zeros(size.shape, bool)
    left = np.array(budget, np.int64)
    open_ = size > 0
    while True:
        open_ &= size <= left[:, None]
        if not open_.any():
            return taken
        total = np.cumsum(np.where(open_, size, 0), axis=1)
        fits = open_ & (total <= left[:, None])
        taken |= fits
        open_ &= ~fits
        left -= np.where(fits, size, 0).sum(axis=1)


def compositions(key: np.ndarray, role: str, total, parts) -> np.ndarray:
    """[B, S] int64: ends of `parts` [B] non-empty parts of `total` [B], cumulative.

    All compositions are equally likely; places from `parts` - 1 on hold `total`.
    """
    width = max(int(np.max(total, initial=1)) - 1, 1)
    gap = np.arange(width) < np.asarray(total)[:, None] - 1
    cut = choose(key, role, gap, np.maximum(np.asarray(parts) - 1, 0))
    num_parts = int(np.max(parts, initial=0))
    ends = np.repeat(np.asarray(total, np.int64)[:, None], num_parts, axis=1)
    held = np.arange(num_parts) < cut.sum(axis=1)[:, None]
    ends[held] = np.flatnonzero(cut) % width + 1
    return ends


def place_spans(
    key: np.ndarray,
    role: str,
    start: np.ndarray,
    candidate: np.ndarray,
    *,
    begin: np.ndarray,
    end: np.ndarray,
    goal: np.ndarray,
    longest: int,
    spread: int,
) -> np.ndarray:
    """[B, L] bool: spans placed from left to right in parts [begin, end) of each row.

    A span has n <= longest tokens with p ~ 1/n, cut to what is left of the goal, and
    stands in a context of spread * n further tokens, divided at random between its
    left and its right; it begins at the next `start` that has n candidates ahead.
    A part ends with the span that does not fit (XLNet, released code).

    start, candidate: [B, L] bool. begin, end, goal: [B, P].
    """
    (num_rows, length), num_parts = start.shape, begin.shape[1]
    num_steps = int(np.max(end - begin, initial=0)) // (spread + 1) + 1
    odds = 1 / np.arange(1, longest + 1)
    draw = uniform(key, role, 2 * num_steps * num_parts)
    draw = draw.reshape(num_rows, num_steps, num_parts, 2)
    size = np.searchsorted(np.cumsum(odds)[:-1] / odds.sum(), draw[..., 0], "right") + 1
    size, where = np.moveaxis(size, 1, 0).copy(), np.moveaxis(draw[..., 1], 1, 0).copy()
    head, nth = _heads(start, candidate, longest)
    row = np.arange(num_rows)[:, None] * (length + 1)
    first, held = np.zeros_like(size), np.zeros_like(size)
    place, left = begin, goal
    live = np.ones(begin.shape, bool)
    for step in range(num_steps):
        n = np.minimum(size[step], left)
        before = (where[step] * (spread * n)).astype(np.int64)
        after = row + np.minimum(place + before, length)
        here = first[step] = head[nth[n, after]] - row
        live &= (here + n <= end) & (n > 0)
        if not live.any():
            break
        held[step] = n * live
        left = left - held[step]
        place = here + (spread + 1) * n - before
    edge = np.zeros((num_rows * (length + 1)), np.int8)
    first = (first + row)[held > 0]
    edge[first] += 1
    edge[first + held[held > 0]] -= 1
    edge = edge.reshape(num_rows, length + 1)[:, :-1]
    return np.cumsum(edge, axis=1, dtype=np.int8).astype(bool)


def _heads(start: np.ndarray, candidate: np.ndarray, longest: int):
    """Where the next span of n tokens may begin, at or after a place of [B, L + 1].

    It is head[nth[n, place]], both places flat; its row's place L if there is none.

    Returns:
      head: flat places in order, for one n after the other.
      nth: [longest + 1, B * (L + 1)].
    """
    num_rows, length = start.shape
    ahead = np.zeros((longest + 1, num_rows, length + 1), bool)
    ahead[:, :, length] = True
    ahead[1, :, :length] = start & candidate
    for n in range(2, min(longest, length) + 1):
        fits = length - n + 1
        ahead[n, :, :fits] = ahead[n - 1, :, :fits] & candidate[:, n - 1 :]
    ahead = ahead.reshape(longest + 1, -1)
    nth = np.cumsum(ahead, dtype=np.int32).reshape(ahead.shape) - ahead
    return np.flatnonzero(ahead) % ahead.shape[1], nth
