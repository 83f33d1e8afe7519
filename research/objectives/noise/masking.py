"""Masking of tokens: how many are chosen, what replaces them, and what is scored."""

# B batch, L length, K scored positions, T trigrams of a row

import itertools
import math
from typing import Any

import numpy as np

from research.contract.batch import NEVER, VocabInfo
from research.contract.errors import UserError
from research.data import counter_rng
from research.objectives.layout import input_format
from research.objectives.noise import mask_units

ROUNDINGS = ("nearest", "up", "random")
TOKEN_SETS = ("ordinary", "all")
"""Sets of tokens to choose or to draw random tokens from: without specials, or all.
Specials are only for systems whose released code chooses or draws them."""
RANDOM_TOKENS = (*TOKEN_SETS, "corpus")
"""Distributions of random tokens. corpus: ordinary tokens, as frequent as in the
training text (facebookresearch/SpanBERT, masking.py, span_masking)."""
POSITION_DRAWS = ("distinct", "repeated")
"""Ways to draw positions: without replacement, or with it."""
DRAW_UNITS = ("token", "span")

STAYS = "some of the chosen tokens stay as they are (Devlin et al. 2019, section 3.1)"
"""Why an input shows tokens that are targets."""

TRIGRAM_ORDERS = np.array(list(itertools.permutations(range(3))))
"""All orders of a trigram, [6, 3]."""


def max_masked(rate: float, length: int, *, independent: bool = False) -> int:
    """ceil(rate * length): 20 at rate 0.15 and length 128, 77 at 512.

    Args:
      independent: tokens are chosen by `choose_independently`: six standard deviations
        are added, which gives 44 at length 128.
    """
    deviation = math.sqrt(rate * (1 - rate) * length) if independent else 0.0
    count = math.ceil(rate * length + 6 * deviation - 1e-9)
    return min(length, max(count, int(rate > 0)))  # 1 at the smallest rates


def mask_budget(
    num_tokens: np.ndarray,
    rate: np.ndarray | float,
    max_count: int,
    *,
    rounding: str = "nearest",
    key: np.ndarray | None = None,
) -> np.ndarray:
    """[B]: how many of a row's `num_tokens` [B] tokens to mask, at most `max_count`.

    Args:
      rate: a number, or one per row [B].
      rounding: how rate * tokens is rounded.
        nearest: to the nearest integer, ties to even, and at least 1 (BERT).
        up: to the next larger integer.
        random: floor(rate * tokens + u) with u uniform in [0, 1), drawn by row
          (fairseq): the mean is rate * tokens, and the result may be 0.
    """
    exact = rate * num_tokens
    if rounding == "random":
        assert key is not None
        count = np.floor(exact + counter_rng.uniform(key, "budget", 1)[:, 0])
    elif rounding == "up":
        count = np.ceil(exact - 1e-9)
    else:
        count = np.maximum(np.rint(exact), 1)
    return np.where(num_tokens > 0, np.minimum(count, max_count), 0).astype(np.int64)


def random_ids(bits: np.ndarray, vocab: VocabInfo, random_tokens: str) -> np.ndarray:
    """Random tokens from one of RANDOM_TOKENS, given the low 32 bits of `bits`.

    Raises:
      UserError: `random_tokens` is corpus, but the text has no counts of tokens.
    """
    bits = bits & np.uint64(2**32 - 1)
    if random_tokens == "corpus":
        end = np.cumsum(ordinary_counts(vocab, "random_tokens", random_tokens))
        return np.searchsorted(end, bits * 2.0**-32 * end[-1], "right")
    every = np.arange(vocab.size)
    pool = vocab.ordinary_ids if random_tokens == "ordinary" else every
    return pool[bits * np.uint64(len(pool)) >> np.uint64(32)]


def ordinary_counts(vocab: VocabInfo, field: str, value: Any) -> np.ndarray:
    """[V] int64: how often each token occurs in the training text; 0 for specials.

    Raises:
      UserError: the text has no counts, which this value of the field needs.
    """
    if vocab.token_count is None:
        raise UserError(
            f"objective.{field} is {value}, which needs counts of tokens, but "
            "data.task has none; set it to another value"
        )
    return np.where(vocab.is_special, 0, vocab.token_count).astype(np.int64)


def mask_random_tokens(
    token: np.ndarray,
    candidate: np.ndarray,
    num_tokens: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    rate: float,
    max_count: int,
    mask_fraction: float,
    random_fraction: float,
    random_tokens: str = "ordinary",
) -> dict[str, np.ndarray]:
    """BERT's masking of single tokens: overwrites `token` [B, L] in place.

    It chooses round(rate * num_tokens) of the candidates [B, L] of a row, at most
    `max_count`, at distinct positions, and replaces them by `replace_chosen`.

    Returns:
      scored, target, weight [B, K] with K = `max_count`.
    """
    count = mask_budget(num_tokens, rate, max_count)
    chosen = counter_rng.choose_subset(key, "choose", candidate, count)
    return replace_chosen(
        token,
        chosen,
        key,
        vocab,
        num_scored=max_count,
        mask_fraction=mask_fraction,
        random_fraction=random_fraction,
        random_tokens=random_tokens,
    )


def mask_drawn_positions(
    token: np.ndarray,
    candidate: np.ndarray,
    num_tokens: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    rate: float,
    max_count: int,
    mask_fraction: float,
) -> dict[str, np.ndarray]:
    """ELECTRA's masking: positions drawn with replacement; overwrites `token` [B, L].

    It draws round(rate * num_tokens) candidates [B, L], at most `max_count`. Each draw
    becomes the mask token with probability `mask_fraction`. A position is masked if one
    of its draws is, and is a target as often as it is drawn (google-research/electra,
    pretrain/pretrain_helpers.py, mask and scatter_update).

    Returns:
      scored, target, weight [B, K] with K = `max_count`; scored ascends.
    """
    total = candidate.sum(axis=1)
    count = np.where(total > 0, mask_budget(num_tokens, rate, max_count), 0)
    used = np.arange(max_count) < count[:, None]
    draw = counter_rng.uniform(key, "choose", max_count)
    nth = (draw * total[:, None]).astype(np.int64)
    in_order = np.argsort(~candidate, axis=1, kind="stable")
    drawn = np.take_along_axis(in_order, nth, axis=1)
    drawn = np.sort(np.where(used, drawn, token.shape[1]), axis=1)
    scored = np.where(used, drawn, 0).astype(np.int32)
    original = np.take_along_axis(token, scored, axis=1)
    hidden = used & (counter_rng.uniform(key, "replace", max_count) < mask_fraction)
    row, slot = np.nonzero(hidden)
    token[row, scored[row, slot]] = vocab.mask_id
    return {
        "scored": scored,
        "target": np.where(used, original, vocab.pad_id).astype(np.int32),
        "weight": used.astype(np.float32),
    }


def choose_independently(
    key: np.ndarray,
    start: np.ndarray,
    candidate: np.ndarray,
    rate: np.ndarray | float,
    max_count: int,
) -> np.ndarray:
    """[B, L] bool: each unit is chosen independently, with the rate at its first token.

    So the number of chosen tokens varies from row to row (PaddlePaddle/ERNIE,
    batching.py, mask; facebookresearch/XLM, trainer.py, mask_out). If a row has more
    than `max_count` chosen tokens, a random subset of that size stays chosen.

    Args:
      start, candidate: [B, L] bool; units are the words of `counter_rng.find_words`.
      rate: the probability, or probabilities [B, L].
    """
    length = candidate.shape[1]
    first, size = counter_rng.find_words(start, candidate)
    is_hit = (counter_rng.uniform(key, "choose", length) < rate).reshape(-1)[first]
    chosen = np.zeros(candidate.shape, bool)
    chosen[candidate] = np.repeat(is_hit, size)
    over = np.flatnonzero(chosen.sum(axis=1) > max_count)
    most = np.full(len(over), max_count)
    chosen[over] = counter_rng.choose_subset(key[over], "surplus", chosen[over], most)
    return chosen


def replace_chosen(
    token: np.ndarray,
    chosen: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    num_scored: int,
    mask_fraction: float,
    random_fraction: float,
    draw_unit: str = "token",
    random_tokens: str = "ordinary",
    starts: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Overwrites the chosen positions [B, L] of `token` in place.

    Each becomes the mask token, or a random token (which may be the same), or stays.

    Args:
      mask_fraction, random_fraction: probabilities of a mask and of a random token.
      draw_unit: token: this is drawn for each position. span: it is drawn once for each
        contiguous run of chosen positions; random tokens still differ.
      random_tokens: one of RANDOM_TOKENS.
      starts: [B, L] bool, positions at which a run ends and another begins; None: no
        such positions.

    Returns:
      scored, target, weight [B, K].
    """
    scored, used = input_format.scored_positions(chosen, num_scored)
    flat_index = np.flatnonzero(chosen)
    target = np.full(used.shape, vocab.pad_id, np.int32)
    target[used] = token.take(flat_index)
    bits = counter_rng.random_bits(key, "replace", num_scored)
    draw = (bits >> np.uint64(32)) * 2.0**-32
    if draw_unit == "span":
        first, _ = _span_slots(scored, used, starts)
        draw = np.take_along_axis(draw, first, axis=1)
    other = random_ids(bits, vocab, random_tokens)
    new = np.where(draw < mask_fraction + random_fraction, other, target)
    new = np.where(draw < mask_fraction, vocab.mask_id, new)
    np.put(token, flat_index, new[used])
    return {"scored": scored, "target": target, "weight": used.astype(np.float32)}


def span_boundaries(
    scored: np.ndarray, weight: np.ndarray, special: np.ndarray
) -> dict[str, np.ndarray]:
    """left, right, offset [B, K] of the span of each scored position.

    left and right are the unmasked positions next to the span; offset is the position
    in the span, from 0. A span is a contiguous run of scored positions (Joshi et al.
    2020, 3.2). A span next to a `special` [B, L] is not predicted from its boundaries:
    its offsets are NEVER (facebookresearch/SpanBERT, masking.py, span_masking).
    """
    used = weight > 0
    first, last = (
        np.take_along_axis(scored, slot, axis=1) for slot in _span_slots(scored, used)
    )
    left, right = np.where(used, first - 1, 0), np.where(used, last + 1, 0)
    beside = np.take_along_axis(special, left, axis=1)
    beside |= np.take_along_axis(special, right, axis=1)
    offset = np.where(beside, NEVER, scored - first)
    return {"left": left, "right": right, "offset": np.where(used, offset, 0)}


def _span_slots(
    scored: np.ndarray, used: np.ndarray, starts: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last slot of the span of each slot, [B, K] each."""
    slot = np.arange(scored.shape[1])
    follows = used[:, 1:] & (np.diff(scored, axis=1) == 1)
    if starts is not None:
        follows &= ~np.take_along_axis(starts, scored, axis=1)[:, 1:]
    begins = np.pad(~follows, [(0, 0), (1, 0)], constant_values=True)
    ends = np.pad(~follows, [(0, 0), (0, 1)], constant_values=True)
    first = np.maximum.accumulate(np.where(begins, slot, 0), axis=1)
    last = np.where(ends, slot, len(slot))[:, ::-1]
    return first, np.minimum.accumulate(last, axis=1)[:, ::-1]


def num_trigrams(num_tokens: np.ndarray | int, rate: float) -> np.ndarray:
    """round(rate * tokens / 3), ties to even."""
    return np.rint(rate * np.asarray(num_tokens) / 3).astype(np.int64)


def shuffle_trigrams(
    token: np.ndarray,
    candidate: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    count: np.ndarray,
    max_count: int,
) -> dict[str, np.ndarray]:
    """Shuffles `count` [B] <= `max_count` trigrams of candidates [B, L] in place.

    All six orders are equally likely, the original included (Wang et al. 2020, 2.2).

    Returns:
      scored, target, weight [B, 3 * max_count]; targets are the original tokens.
    """
    every = np.ones(candidate.shape, bool)
    three = np.array([0.0, 0.0, 1.0])
    chosen = mask_units.choose_runs(
        key, "trigram", every, candidate, 3 * count, three, shorten=False
    )
    scored, used = input_format.scored_positions(chosen, 3 * max_count)
    target = np.full(used.shape, vocab.pad_id, np.int32)
    target[used] = token[chosen]
    drawn = counter_rng.random_bits(key, "order", max_count) % np.uint64(
        len(TRIGRAM_ORDERS)
    )
    target_BT3 = target.reshape(len(token), max_count, 3)
    order_BT3 = TRIGRAM_ORDERS[drawn.astype(np.intp)]
    new = np.take_along_axis(target_BT3, order_BT3, axis=2).reshape(used.shape)
    token[chosen] = new[used]
    return {"scored": scored, "target": target, "weight": used.astype(np.float32)}
