"""Noise masks over a text, and what replaces the hidden tokens.

Lengths and draws follow T5 (Raffel et al. 2020, section 3.1.4, and the released code).
"""

# B batch, R raw tokens an example, S spans of a row

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from research.contract.batch import VocabInfo
from research.data import counter_rng
from research.objectives.noise.masking import random_ids

NUM_DEVIATIONS = 4
"""An iid noise mask has room for this many standard deviations above the mean. One text
in 30,000 exceeds it; its remaining tokens are not hidden."""


class Counts(NamedTuple):
    """How many tokens of a text are hidden, and in how many spans."""

    hidden: Any  # np.ndarray or int
    spans: Any


class Runs(NamedTuple):
    """Runs of a text, [B, R] each; visible and hidden runs alternate."""

    run: np.ndarray  # number of the run; run // 2 counts runs of the same type
    start: np.ndarray  # bool: the first token of a run; False if nothing is hidden


def span_counts(num_raw: np.ndarray | int, rate: float, mean_span: float) -> Counts:
    """Counts for texts of `num_raw` tokens (any shape); ties round to even.

    All lengths are computed from these counts, so a text always fits. Nothing is hidden
    in a text of one token.
    """
    num_raw = np.asarray(num_raw)
    hidden = np.maximum(np.rint(num_raw * rate).astype(np.int64), 1)
    hidden = np.minimum(hidden, np.maximum(num_raw - 1, 0))
    spans = np.maximum(np.rint(hidden / mean_span).astype(np.int64), 1)
    return Counts(hidden, np.minimum(spans, np.minimum(hidden, num_raw - hidden)))


def random_spans_noise_mask(
    key: np.ndarray, num_raw: np.ndarray, width: int, rate: float, mean_span: float
) -> np.ndarray:
    """[B, R] bool: a fixed number of tokens in a fixed number of spans.

    A text starts with a visible run and ends with a hidden one. All ways to divide the
    hidden tokens into spans, and the visible tokens into runs, are equally likely.

    Args:
      num_raw: [B].
      width: R.
    """
    num_raw = num_raw.astype(np.int64)
    hidden, spans = span_counts(num_raw, rate, mean_span)
    clear_end = counter_rng.random_composition(key, "clear", num_raw - hidden, spans)
    span_end = counter_rng.random_composition(key, "hidden", hidden, spans)
    span_begin = np.pad(span_end, [(0, 0), (1, 0)])[:, :-1]
    valid = np.arange(span_end.shape[1]) < spans[:, None]
    row = np.nonzero(valid)[0]
    edge = np.zeros((len(valid), width + 1), bool)
    edge[row, (clear_end + span_begin)[valid]] = True
    edge[row, (clear_end + span_end)[valid]] = True
    inside = np.logical_xor.accumulate(edge[:, :-1], axis=1)
    return inside & (np.arange(width) < num_raw[:, None])


def max_iid_counts(num_raw: int, rate: float) -> Counts:
    """The largest counts of an iid noise mask: mean + `NUM_DEVIATIONS` deviations.

    The number of runs in n Bernoulli trials has variance n pq (1 - 3 pq), q = 1 - p.
    """
    pq = rate * (1 - rate)
    deviation = NUM_DEVIATIONS * math.sqrt(num_raw * pq)
    hidden = num_raw * rate + deviation
    spans = num_raw * pq + rate + deviation * math.sqrt(1 - 3 * pq)
    return Counts(
        min(math.ceil(hidden), num_raw), min(math.ceil(spans), (num_raw + 1) // 2)
    )


def iid_noise_mask(
    key: np.ndarray, num_raw: np.ndarray, width: int, rate: float, room: Counts
) -> np.ndarray:
    """[B, R] bool: each token is hidden independently, with probability `rate`.

    Tokens past the first `room.hidden`, or past `room.spans` runs, are not hidden.
    """
    valid = np.arange(width) < num_raw[:, None]
    hidden = (counter_rng.uniform(key, "iid", width) < rate) & valid
    start = hidden.copy()
    start[:, 1:] &= ~hidden[:, :-1]
    fits = (np.cumsum(hidden, axis=1) <= room.hidden) & (
        np.cumsum(start, axis=1) <= room.spans
    )
    return hidden & fits


def max_suffix(num_raw: np.ndarray | int, rate: float) -> np.ndarray:
    """The longest suffix that `suffix_noise_mask` hides in `num_raw` tokens."""
    num_raw = np.asarray(num_raw)
    longest = np.rint(2 * rate * num_raw).astype(np.int64) - 1
    return np.clip(longest, np.minimum(1, num_raw - 1), num_raw - 1)


def suffix_noise_mask(
    key: np.ndarray, num_raw: np.ndarray, width: int, rate: float
) -> np.ndarray:
    """[B, R] bool: a suffix of each text; its length is uniform with mean `rate`.

    At rate 0.5 the text is cut at a uniform position between two tokens (T5's prefix
    language model). Nothing is hidden in a text of one token.
    """
    longest = max_suffix(num_raw, rate)
    hidden = (counter_rng.uniform(key, "rest", 1)[:, 0] * longest).astype(np.int64) + 1
    hidden = np.where(longest > 0, hidden, 0)
    index = np.arange(width)
    begin = (num_raw - hidden)[:, None]
    return (index >= begin) & (index < num_raw[:, None])


def find_runs(hidden: np.ndarray, valid: np.ndarray) -> Runs:
    """The runs of texts, given which tokens are `valid` and `hidden` [B, R]."""
    start = np.empty_like(hidden)
    start[:, :1] = True
    start[:, 1:] = hidden[:, 1:] != hidden[:, :-1]
    start &= valid & hidden.any(axis=1, keepdims=True)
    return Runs(np.cumsum(start, axis=1, dtype=np.int32) - 1, start)


def replace_tokens(
    token: np.ndarray,
    hidden: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    mask_fraction: float,
    random_fraction: float,
    random_tokens: str = "ordinary",
    role: str = "replace",
) -> np.ndarray:
    """Replaces the `hidden` [B, R] tokens, each independently.

    Args:
      mask_fraction: fraction of hidden tokens that becomes the mask token.
      random_fraction: fraction that becomes a random token, which may be the same; the
        rest is unchanged.
      random_tokens: one of `masking.RANDOM_TOKENS`.
    """
    flat_index = np.flatnonzero(hidden)
    draw = counter_rng.random_bits(key, role, token.shape[1]).take(flat_index)
    uniform = (draw >> np.uint64(32)) * 2.0**-32
    other = random_ids(draw, vocab, random_tokens)
    random = uniform < mask_fraction + random_fraction
    new = np.where(random, other, token.take(flat_index))
    new = np.where(uniform < mask_fraction, vocab.mask_id, new)
    replaced = np.array(token, np.int32)
    np.put(replaced, flat_index, new)
    return replaced


def shuffle_tokens(
    token: np.ndarray, moving: np.ndarray, key: np.ndarray
) -> np.ndarray:
    """Tokens [B, R] of which the `moving` [B, R] ones are permuted at random."""
    count = moving.sum(axis=1)
    order = counter_rng.first_in_random_order(key, "shuffle", moving, count)
    valid = np.arange(order.shape[1]) < count[:, None]
    shuffled = np.array(token, np.int32)
    shuffled[moving] = np.take_along_axis(token, order, axis=1)[valid]
    return shuffled


def insert_sentinels(
    token: np.ndarray, kept: np.ndarray, runs: Runs, vocab: VocabInfo
) -> tuple[np.ndarray, np.ndarray]:
    """Replaces each run that is not kept with one sentinel.

    The sentinels of visible runs and of hidden runs are counted separately.

    Returns:
      tokens [B, R], and which of them remain [B, R].
    """
    first = runs.start & ~kept
    marked = np.array(token, np.int32)
    marked[first] = np.array(vocab.sentinel_ids, np.int32)[runs.run[first] // 2]
    return marked, first | kept


class Lengths(NamedTuple):
    """The lengths of text and target for an encoder of length L."""

    raw: int  # raw tokens
    target: int  # the decoder's length


@functools.cache
def span_corruption_lengths(
    length: int,
    rate: float,
    mean_span: float,
    replacement: str = "sentinel",
    target: str = "spans",
) -> Lengths:
    """The longest text for an encoder of length L: (512, 0.15, 3) -> (568, 114).

    At rate 0.5 targets can be longer than inputs; then both lose a token.
    """

    def sizes(num_raw: np.ndarray | int) -> tuple[Any, Any]:
        hidden, sentinels = span_counts(num_raw, rate, mean_span)
        replaced = {"sentinel": sentinels, "drop": 0}.get(replacement, hidden)
        written = hidden + (sentinels if replacement == "sentinel" else 0)
        whole = target == "whole"
        return num_raw - hidden + replaced + 1, (num_raw if whole else written) + 1

    num_raw = np.arange(1, int((length + 2) / (1 - rate)) + 2)
    raw = int(num_raw[sizes(num_raw)[0] <= length][-1])
    published = (rate, replacement, target) == (0.5, "sentinel", "spans")
    if published and np.less(*sizes(raw)):
        raw -= 1
    return Lengths(raw, int(sizes(raw)[1]))
