"""Counter-based random numbers: pure functions of (row key, role, index).

A row's random choices depend only on its key: not on the other rows of the batch, nor
on how far the rows are padded.
"""

# B batch, L length, S spans, W words or other candidates

import zlib

import numpy as np

GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""SplitMix64's increment: 2^64 divided by the golden ratio."""

INDEX_BITS = 20
"""Low bits of a hash that are replaced by an index, so that one sort orders indices."""

INDEX_MASK = np.uint64(2**INDEX_BITS - 1)
MAX_UINT64 = np.uint64(2**64 - 1)


def mix64(value: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014), a bijection, in place."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    value ^= value >> np.uint64(31)
    return value


def row_key(seed: int, epoch: np.ndarray, example: np.ndarray) -> np.ndarray:
    """[B] uint64: a row's key, a hash of the run's seed, epoch [B] and example [B]."""
    key = np.full(np.shape(example), np.uint64(seed % 2**64))
    for counter in (epoch, example):
        key = mix64(key + GOLDEN_GAMMA) + np.asarray(counter).astype(np.uint64)
    return mix64(key + GOLDEN_GAMMA)


def random_bits(key: np.ndarray, role: str, n: int) -> np.ndarray:
    """[B, n] uint64, uniform: the first n numbers of the row's stream for this role."""
    role_hash = np.array([zlib.crc32(role.encode())], np.uint64)
    start = mix64(key ^ mix64(role_hash + GOLDEN_GAMMA))
    steps = np.arange(1, n + 1, dtype=np.uint64) * GOLDEN_GAMMA
    return mix64(start[:, None] + steps)


def uniform(key: np.ndarray, role: str, n: int) -> np.ndarray:
    """[B, n] float64, uniform in [0, 1)."""
    return (random_bits(key, role, n) >> np.uint64(11)) * 2.0**-53


def permutation(key: np.ndarray, role: str, n: int) -> np.ndarray:
    """[B, n] int32: each row a permutation of 0..n-1, all equally likely.

    Entry i is the rank of hash i, so the relative order of the first entries is the
    same for any n.
    """
    index = np.arange(n, dtype=np.uint64)
    score = random_bits(key, role, n)
    score &= ~INDEX_MASK
    score |= index
    score.sort(axis=1)
    by_rank = score & INDEX_MASK
    by_rank += np.arange(len(key), dtype=np.uint64)[:, None] * np.uint64(n)
    rank = np.empty(score.shape, np.int32)
    rank.reshape(-1)[by_rank.reshape(-1).view(np.int64)] = np.tile(
        index.astype(np.int32), len(key)
    )
    return rank


def choose_subset(key: np.ndarray, role: str, candidate: np.ndarray, count):
    """[B, L] bool: `count` of the candidates, all subsets equally likely.

    Rows with fewer than `count` candidates choose all of them.

    Args:
      key: [B] uint64.
      role: name of the stream of random numbers.
      candidate: [B, L] bool.
      count: [B] int.
    """
    count = np.minimum(count, candidate.sum(axis=1))
    if not count.any():
        return np.zeros(candidate.shape, bool)
    score = candidate_scores(key, role, candidate)
    return (score <= nth_smallest(score, count)) & (count > 0)[:, None]


def choose_by_weight(
    key: np.ndarray, role: str, weight: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """[B, W] bool: `count` [B] drawn one by one, in proportion to their weights.

    Rows with fewer positive weights choose all of these positions.

    Args:
      weight: [B, W] float.
    """
    # Exponential waiting times are ordered as such draws are.
    wait = -np.log1p(-uniform(key, role, weight.shape[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = np.where(weight > 0, wait / weight, np.inf)
    place = wait.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return (place < count[:, None]) & (weight > 0)


def candidate_scores(key: np.ndarray, role: str, candidate: np.ndarray) -> np.ndarray:
    """[B, W] uint64: random where `candidate` [B, W] is true, else MAX_UINT64."""
    not_candidate = candidate.astype(np.uint64) - np.uint64(1)
    return random_bits(key, role, candidate.shape[1]) | not_candidate


def first_in_random_order(key, role: str, candidate: np.ndarray, count) -> np.ndarray:
    """[B, max(count)] int64: the first `count` candidates [B, W] in a random order.

    `count` [B] must not exceed the number of candidates. A row's entries past its count
    are other positions.
    """
    score = candidate_scores(key, role, candidate) & ~INDEX_MASK
    score |= np.arange(candidate.shape[1], dtype=np.uint64)
    most = int(count.max(initial=0))
    if most < candidate.shape[1]:
        score = np.partition(score, most, axis=1)[:, :most]
    score.sort(axis=1)
    return (score & INDEX_MASK).view(np.int64)


def nth_smallest(score: np.ndarray, count: np.ndarray) -> np.ndarray:
    """[B, 1]: the `count`-th smallest value of each row of `score`; 0 counts as 1.

    `count` [B] must not exceed the length of a row, and one must be above 0.
    """
    most = int(count.max())
    least = np.partition(score, most - 1, axis=1)[:, :most]
    if (count != most).any():
        least.sort(axis=1)
    return np.take_along_axis(least, np.maximum(count - 1, 0)[:, None], axis=1)


def choose_words(
    key: np.ndarray, role: str, start: np.ndarray, candidate: np.ndarray, budget
) -> np.ndarray:
    """[B, L] bool: whole words, chosen in random order if they still fit the budget.

    Words are those of `find_words`. A word longer than what is left of the budget is
    skipped and the next one tried.

    Args:
      key: [B] uint64.
      role: names the stream of random numbers.
      start: [B, L] bool, tokens that start a word.
      candidate: [B, L] bool, tokens that may be chosen.
      budget: [B] int, tokens to choose at most.
    """
    first, size = find_words(start, candidate)
    row = first // start.shape[1]
    num_words = np.bincount(row, minlength=len(start))
    index = np.arange(num_words.max(initial=0))
    is_word = index < num_words[:, None]
    score = np.full(is_word.shape, MAX_UINT64)
    bits = random_bits(key, role, start.shape[1]).reshape(-1)
    score[is_word] = bits[first] & ~INDEX_MASK
    score = np.where(is_word, score | index.astype(np.uint64), MAX_UINT64)
    score.sort(axis=1)
    last = np.uint64(max(len(index) - 1, 0))
    word = np.minimum(score & INDEX_MASK, last).astype(np.intp)
    size_BW = np.zeros(is_word.shape, np.int64)
    size_BW[is_word] = size
    shuffled_size = np.where(is_word, np.take_along_axis(size_BW, word, axis=1), 0)
    taken = np.zeros(is_word.shape, bool)
    fits = greedy_fit(shuffled_size, budget)
    np.put_along_axis(taken, np.where(is_word, word, index), fits, axis=1)
    chosen = np.zeros(start.shape, bool)
    chosen[candidate] = np.repeat(taken[is_word], size)
    return chosen


def find_words(start: np.ndarray, candidate: np.ndarray):
    """The words that the candidates form: flat index of the first token, and size.

    A word runs from a `start`, or from the first candidate after another token, to the
    next start or the next token that is not a candidate. Every candidate is in exactly
    one word.

    Args:
      start: [B, L] bool, tokens that start a word.
      candidate: [B, L] bool.

    Returns:
      first: [W] int64, indices into the flattened [B, L], ascending.
      size: [W] int64, tokens of each word.
    """
    before = np.zeros_like(candidate)
    before[:, 1:] = candidate[:, :-1]
    first = candidate & (start | ~before)
    edge = np.flatnonzero(first | ~candidate)
    size = np.diff(edge, append=candidate.size)
    # A word at the end of its row ends at the first edge of the next row, its index 0.
    is_word = first.reshape(-1)[edge]
    return edge[is_word], size[is_word]


def greedy_fit(size: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """[B, W] bool: the items that are chosen greedily from left to right.

    Each item is chosen if it fits in the rest of the budget, else skipped. Each round
    chooses all items up to the first that does not fit, which it rules out.

    Args:
      size: [B, W] int; 0 means no item.
      budget: [B] int.
    """
    taken = np.zeros(size.shape, bool)
    left = np.array(budget, np.int64)
    untried = size > 0
    while True:
        untried &= size <= left[:, None]
        if not untried.any():
            return taken
        total = np.cumsum(np.where(untried, size, 0), axis=1)
        fits = untried & (total <= left[:, None])
        taken |= fits
        untried &= ~fits
        left -= np.where(fits, size, 0).sum(axis=1)


def random_composition(key: np.ndarray, role: str, total, parts) -> np.ndarray:
    """[B, S] int64: a row's `total` divided into `parts` non-empty parts.

    All compositions are equally likely. Entry i is the end of part i, cumulative;
    entries from `parts` - 1 on are `total`.

    Args:
      key: [B] uint64.
      role: names the stream of random numbers.
      total, parts: [B] int.
    """
    width = max(int(np.max(total, initial=1)) - 1, 1)
    gap = np.arange(width) < np.asarray(total)[:, None] - 1
    cut = choose_subset(key, role, gap, np.maximum(np.asarray(parts) - 1, 0))
    num_parts = int(np.max(parts, initial=0))
    ends = np.repeat(np.asarray(total, np.int64)[:, None], num_parts, axis=1)
    is_cut = np.arange(num_parts) < cut.sum(axis=1)[:, None]
    ends[is_cut] = np.flatnonzero(cut) % width + 1
    return ends
