"""Which places of a text are hidden, and the runs of clear and hidden places.

Lengths and draws follow T5 (Raffel et al. 2020, section 3.1.4, and the released code).
"""

# B batch, R raw tokens an example, S spans of a row

import math
from typing import NamedTuple

import numpy as np

from research.batch import VocabInfo
from research.data import counter_rng

SPREAD = 4
"""Standard deviations over its mean that an independent choice has room for: of 30,000
texts one has more, and leaves what is over in the clear."""


class Counts(NamedTuple):
    """Of a text of n tokens: how many are hidden, and in how many spans."""

    hidden: np.ndarray
    spans: np.ndarray


class Runs(NamedTuple):
    """Runs of a text, [B, R] each: clear ones and hidden ones in turn."""

    run: np.ndarray  # number of the run; run // 2 counts its own sort
    start: np.ndarray  # the first token of a run; nowhere in a text that hides nothing


def counts(num_raw, rate: float, span: float) -> Counts:
    """For texts of `num_raw` tokens (any shape); half-way cases go to the even one.

    The only place where they are computed, so that a text always fits the lengths.
    A text of one token hides nothing.
    """
    num_raw = np.asarray(num_raw)
    hidden = np.maximum(np.rint(num_raw * rate).astype(np.int64), 1)
    hidden = np.minimum(hidden, np.maximum(num_raw - 1, 0))
    spans = np.maximum(np.rint(hidden / span).astype(np.int64), 1)
    return Counts(hidden, np.minimum(spans, np.minimum(hidden, num_raw - hidden)))


def of_mean(key: np.ndarray, num_raw: np.ndarray, width: int, rate, span) -> np.ndarray:
    """[B, R] bool: a fixed number of tokens in a fixed number of spans.

    A text starts in the clear and ends hidden; all ways to cut what is hidden into
    spans, and the rest into what stands before each, are equally likely.
    """
    num_raw = num_raw.astype(np.int64)
    hidden, spans = counts(num_raw, rate, span)
    clear_end = counter_rng.random_composition(key, "clear", num_raw - hidden, spans)
    span_end = counter_rng.random_composition(key, "hidden", hidden, spans)
    span_begin = np.pad(span_end, [(0, 0), (1, 0)])[:, :-1]
    held = np.arange(span_end.shape[1]) < spans[:, None]
    row = np.nonzero(held)[0]
    edge = np.zeros((len(held), width + 1), bool)
    edge[row, (clear_end + span_begin)[held]] = True
    edge[row, (clear_end + span_end)[held]] = True
    inside = np.logical_xor.accumulate(edge[:, :-1], axis=1)
    return inside & (np.arange(width) < num_raw[:, None])


def most(num_raw: int, rate: float) -> Counts:
    """What an independent choice has room for: its mean and `SPREAD` deviations.

    The number of runs of n tosses has the variance n pq (1 - 3 pq), q = 1 - p.
    """
    pq = rate * (1 - rate)
    deviation = SPREAD * math.sqrt(num_raw * pq)
    hidden = num_raw * rate + deviation
    spans = num_raw * pq + rate + deviation * math.sqrt(1 - 3 * pq)
    return Counts(
        min(math.ceil(hidden), num_raw), min(math.ceil(spans), (num_raw + 1) // 2)
    )


def independent(
    key: np.ndarray, num_raw: np.ndarray, width: int, rate: float, room: Counts
) -> np.ndarray:
    """[B, R] bool: each token by itself, with probability `rate`.

    What is past the first `room.hidden` tokens, or `room.spans` runs, stays clear.
    """
    here = np.arange(width) < num_raw[:, None]
    hidden = (counter_rng.uniform(key, "iid", width) < rate) & here
    start = hidden.copy()
    start[:, 1:] &= ~hidden[:, :-1]
    fits = (np.cumsum(hidden, axis=1) <= room.hidden) & (
        np.cumsum(start, axis=1) <= room.spans
    )
    return hidden & fits


def longest_rest(num_raw, rate: float):
    """The longest end that `rest` hides of texts of `num_raw` tokens (any shape)."""
    num_raw = np.asarray(num_raw)
    longest = np.rint(2 * rate * num_raw).astype(np.int64) - 1
    return np.clip(longest, np.minimum(1, num_raw - 1), num_raw - 1)


def rest(key: np.ndarray, num_raw: np.ndarray, width: int, rate: float) -> np.ndarray:
    """[B, R] bool: the end of each text, of uniform length with mean `rate` of it.

    At rate 0.5 the text is cut at a uniform place with something on either side (T5's
    prefix language model); a text of one token stays clear.
    """
    longest = longest_rest(num_raw, rate)
    hidden = (counter_rng.uniform(key, "rest", 1)[:, 0] * longest).astype(np.int64) + 1
    hidden = np.where(longest > 0, hidden, 0)
    place = np.arange(width)
    begin = (num_raw - hidden)[:, None]
    return (place >= begin) & (place < num_raw[:, None])


def runs(hidden: np.ndarray, here: np.ndarray) -> Runs:
    """The runs of texts that hide [B, R] of what they hold, `here` [B, R]."""
    start = np.empty_like(hidden)
    start[:, :1] = True
    start[:, 1:] = hidden[:, 1:] != hidden[:, :-1]
    start &= here & hidden.any(axis=1, keepdims=True)
    return Runs(np.cumsum(start, axis=1, dtype=np.int32) - 1, start)


def replaced(
    token: np.ndarray,
    hidden: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    mask: float,
    random: float,
    role: str = "replace",
) -> np.ndarray:
    """Tokens [B, R] whose hidden places are overwritten, each independently.

    mask: share that becomes the mask token. random: share that becomes an ordinary
    token, which may be the same. The rest stays as it is.
    """
    draw = counter_rng.random_bits(key, role, token.shape[1])[hidden]
    share = (draw >> np.uint64(32)) * 2.0**-32
    other = draw & np.uint64(2**32 - 1)
    other = other * np.uint64(len(vocab.ordinary_ids)) >> np.uint64(32)
    new = np.where(share < mask + random, vocab.ordinary_ids[other], token[hidden])
    value = np.array(token, np.int32)
    value[hidden] = np.where(share < mask, vocab.mask_id, new)
    return value


def shuffled(token: np.ndarray, moving: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Tokens [B, R], of which the `moving` ones change places at random."""
    score = np.where(
        moving,
        counter_rng.random_bits(key, "shuffle", token.shape[1]) >> np.uint64(1),
        counter_rng.MAX_UINT64,
    )
    order = np.argsort(score, axis=1)
    held = np.arange(token.shape[1]) < moving.sum(axis=1)[:, None]
    value = np.array(token, np.int32)
    value[moving] = np.take_along_axis(token, order, axis=1)[held]
    return value
