"""XLNet's spans: chosen from left to right, each with context proportional to it."""

# B batch, L length, P parts of a row

import numpy as np

from research.data import counter_rng


def choose_spans(
    key: np.ndarray,
    role: str,
    start: np.ndarray,
    candidate: np.ndarray,
    *,
    begin: np.ndarray,
    end: np.ndarray,
    goal: np.ndarray,
    max_span: int,
    context_ratio: int,
) -> np.ndarray:
    """[B, L] bool: spans chosen from left to right in parts [begin, end) of each row.

    A span has n <= max_span tokens with p ~ 1/n, limited by the rest of the goal. Its
    context is context_ratio * n more tokens, divided at random between left and right.
    It begins at the next `start` that is followed by n candidates. Sampling stops at
    the first span that does not fit in the part, which is left out (zihangdai/xlnet,
    data_utils.py, _sample_mask).

    Args:
      key: [B] uint64.
      role: name of the stream of random numbers.
      start: [B, L] bool, tokens at which a span may begin.
      candidate: [B, L] bool, tokens that may be chosen.
      begin, end: [B, P] int, the ends of the parts of a row.
      goal: [B, P] int, the most tokens to choose in each part.
      max_span: tokens of the longest span.
      context_ratio: context tokens for each chosen token.
    """
    (num_rows, length), num_parts = start.shape, begin.shape[1]
    num_steps = int(np.max(end - begin, initial=0)) // (context_ratio + 1) + 1
    odds = 1 / np.arange(1, max_span + 1)
    draw = counter_rng.uniform(key, role, 2 * num_steps * num_parts)
    draw = draw.reshape(num_rows, num_steps, num_parts, 2)
    size = np.searchsorted(np.cumsum(odds)[:-1] / odds.sum(), draw[..., 0], "right") + 1
    size, where = np.moveaxis(size, 1, 0).copy(), np.moveaxis(draw[..., 1], 1, 0).copy()
    span_start, nth = _span_starts(start, candidate, max_span)
    row = np.arange(num_rows)[:, None] * (length + 1)
    first, chosen_size = np.zeros_like(size), np.zeros_like(size)
    position, left = begin, goal
    live = np.ones(begin.shape, bool)
    for step in range(num_steps):
        n = np.minimum(size[step], left)
        before = (where[step] * (context_ratio * n)).astype(np.int64)
        after = row + np.minimum(position + before, length)
        here = first[step] = span_start[nth[n, after]] - row
        live &= (here + n < end) & (n > 0)
        if not live.any():
            break
        chosen_size[step] = n * live
        left = left - chosen_size[step]
        position = here + (context_ratio + 1) * n - before
    edge = np.zeros((num_rows * (length + 1)), np.int8)
    first = (first + row)[chosen_size > 0]
    edge[first] += 1
    edge[first + chosen_size[chosen_size > 0]] -= 1
    edge = edge.reshape(num_rows, length + 1)[:, :-1]
    return np.cumsum(edge, axis=1, dtype=np.int8).astype(bool)


def _span_starts(
    start: np.ndarray, candidate: np.ndarray, max_span: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where the next span of n tokens may begin, at or after each position.

    It is span_start[nth[n, position]], a flat position in [B, L + 1]; position L of a
    row means that no span of n tokens follows.

    Returns:
      span_start: flat positions in ascending order for each n, concatenated.
      nth: [max_span + 1, B * (L + 1)], indices into span_start.
    """
    num_rows, length = start.shape
    ahead = np.zeros((max_span + 1, num_rows, length + 1), bool)
    ahead[:, :, length] = True
    ahead[1, :, :length] = start & candidate
    for n in range(2, min(max_span, length) + 1):
        num_fitting = length - n + 1
        ahead[n, :, :num_fitting] = (
            ahead[n - 1, :, :num_fitting] & candidate[:, n - 1 :]
        )
    ahead = ahead.reshape(max_span + 1, -1)
    nth = np.cumsum(ahead, dtype=np.int32).reshape(ahead.shape) - ahead
    return np.flatnonzero(ahead) % ahead.shape[1], nth
