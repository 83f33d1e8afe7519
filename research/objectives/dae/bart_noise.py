"""BART's noises: masks, deletes, infills or inserts words, and permutes sentences.

Each noise is a function of a text and a key, so noises can be applied in any order.
Special tokens of a text (a separator between documents, a mask) are not words and stay
unchanged.
"""

# B batch, W width, M words of a row, D draws

import math
from typing import NamedTuple

import numpy as np

from research.contract.batch import SENTENCE, WORD, VocabInfo
from research.data import counter_rng
from research.objectives.noise import spans
from research.objectives.noise.mask_units import UNITS


class NoisyText(NamedTuple):
    """Rows of tokens; W is the most tokens that all noises can produce together."""

    token: np.ndarray  # [B, W] int32, pad beyond `length`
    flags: np.ndarray  # [B, W] uint8
    length: np.ndarray  # [B]

    @property
    def valid(self) -> np.ndarray:
        """[B, W] bool: not padding."""
        return np.arange(self.token.shape[1]) < self.length[:, None]


class Words(NamedTuple):
    """The words of a text, numbered within their row."""

    candidate: np.ndarray  # [B, W] bool: tokens of words
    first: np.ndarray  # flat index of each word's first token, row by row
    size: np.ndarray  # tokens of each word, row by row
    valid: np.ndarray  # [B, M] bool: word m exists
    span_limit: np.ndarray  # [B, M]: spans that start here end before this word


def find_words(text: NoisyText, vocab: VocabInfo, unit: str) -> Words:
    """The words of a text: by their flags (`unit` "word"), or each token ("token").

    Spans do not cross special tokens.
    """
    candidate = text.valid & ~vocab.is_special[text.token]
    start = (text.flags & WORD) > 0 if UNITS[unit].of_words else candidate
    first, size = counter_rng.find_words(start, candidate)
    row = first // candidate.shape[1]
    count = np.bincount(row, minlength=len(candidate))
    valid = np.arange(count.max(initial=0)) < count[:, None]
    number = np.nonzero(valid)[1]
    is_last = np.append(first[1:], -1) != first + size  # no adjacent word follows
    is_last |= np.append(row[1:], -1) != row
    last = np.flatnonzero(is_last)
    limit = np.full(valid.shape, valid.shape[1])
    limit[valid] = np.repeat(number[last] + 1, np.diff(last, prepend=-1))
    return Words(candidate, first, size, valid, limit)


def ceil_fraction(rate: float, count: np.ndarray) -> np.ndarray:
    """[B] int64: rate * count, rounded up."""
    return np.ceil(rate * count - 1e-9).astype(np.int64)


def permute_sentences(text: NoisyText, key: np.ndarray, rate: float) -> NoisyText:
    """Permutes a fraction `rate` of the sentences, rounded up, among themselves.

    All orders are equally likely. The tokens before the first sentence flag count as a
    sentence.
    """
    valid = text.valid
    start = valid & ((text.flags & SENTENCE) > 0)
    start[:, 0] = valid[:, 0]
    first = np.flatnonzero(start[valid])
    size = np.diff(first, append=valid.sum())
    count = start.sum(axis=1)
    is_sentence = np.arange(count.max(initial=1)) < count[:, None]
    moving = counter_rng.choose_subset(
        key, "sentences", is_sentence, ceil_fraction(rate, count)
    )
    number = np.zeros(is_sentence.shape, np.int32)
    number[is_sentence] = np.arange(len(first))
    order = spans.shuffle_tokens(number, moving, key)[is_sentence]
    first, size = first[order], size[order]
    source = np.repeat(first - (np.cumsum(size) - size), size) + np.arange(size.sum())
    token, flags = text.token.copy(), text.flags.copy()
    token[valid], flags[valid] = token[valid][source], flags[valid][source]
    return text._replace(token=token, flags=flags)


def mask_words(
    text: NoisyText,
    key: np.ndarray,
    vocab: VocabInfo,
    rate: float,
    *,
    unit: str,
    random_fraction: float,
) -> NoisyText:
    """Masks every token of a fraction `rate` of the words, rounded up.

    Args:
      random_fraction: fraction of masks that are replaced by ordinary tokens.
    """
    chosen = _choose_words(text, key, "mask", vocab, rate, unit)
    return _replace_with_masks(text, chosen, key, "masked", vocab, random_fraction)


def delete_words(
    text: NoisyText, key: np.ndarray, vocab: VocabInfo, rate: float, *, unit: str
) -> NoisyText:
    """Deletes a fraction `rate` of the words, rounded up."""
    chosen = _choose_words(text, key, "delete", vocab, rate, unit)
    return _keep(text, text.valid & ~chosen, vocab)


def draw_span_lengths(
    key: np.ndarray, budget: np.ndarray, poisson_lambda: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draws lengths of spans from Poisson(lambda) until they add up to the budget.

    The last one is trimmed to the rest of the budget, so it is never 0; for a budget of
    0 none is drawn.

    Args:
      key, budget: [B].

    Returns:
      the lengths [B, D] int64, and which of them are drawn, [B, D] bool.
    """
    mean = poisson_lambda
    max_length = int(mean + 20 * math.sqrt(mean) + 20)
    log_p = [n * math.log(mean) - mean - math.lgamma(n + 1) for n in range(max_length)]
    cumulative = np.cumsum(np.exp(log_p))[:-1]
    num_draws = 16
    while True:
        draw = counter_rng.uniform(key, "lengths", num_draws)
        length = np.searchsorted(cumulative, draw, side="right").astype(np.int64)
        before = np.cumsum(length, axis=1) - length
        if (before[:, -1] + length[:, -1] >= budget).all():
            left = budget[:, None] - before
            return np.clip(left, 0, length), left > 0
        num_draws *= 2


def infill_spans(
    text: NoisyText,
    key: np.ndarray,
    vocab: VocabInfo,
    rate: float,
    *,
    unit: str,
    poisson_lambda: float,
    random_fraction: float,
) -> NoisyText:
    """Replaces each span of words by one mask; a span of length 0 inserts a mask.

    The budget of `draw_span_lengths` is a fraction `rate` of the words, rounded up.
    Spans begin at distinct words, all equally likely; spans that overlap are merged.
    Masks of empty spans are inserted anywhere as long as there is room.
    """
    words = find_words(text, vocab, unit)
    budget = ceil_fraction(rate, words.valid.sum(axis=1))
    length, drawn = draw_span_lengths(key, budget, poisson_lambda)
    span = _assign_span_lengths(words, length, drawn, key)
    number = np.arange(span.shape[1])
    end = np.where(span > 0, np.minimum(number + span, words.span_limit), 0)
    covered = np.zeros(span.shape, bool)
    covered[:, 1:] = np.maximum.accumulate(end, axis=1)[:, :-1] > number[1:]
    masked = np.zeros(words.candidate.shape, bool)
    masked.reshape(-1)[words.first[((span > 0) & ~covered)[words.valid]]] = True
    removed = _tokens_of_words(words, (span > 0) | covered) & ~masked
    text = _replace_with_masks(text, masked, key, "infilled", vocab, random_fraction)
    text = _keep(text, text.valid & ~removed, vocab)
    num_empty = (drawn & (length == 0)).sum(axis=1)
    return insert_masks(
        text, key, vocab, num_empty, role="empty", random_fraction=random_fraction
    )


def insert_masks(
    text: NoisyText,
    key: np.ndarray,
    vocab: VocabInfo,
    count: np.ndarray,
    *,
    role: str,
    random_fraction: float,
) -> NoisyText:
    """Inserts `count` [B] masks at random positions as long as there is room."""
    width = text.token.shape[1]
    length = np.minimum(text.length + count, width)
    valid = np.arange(width) < length[:, None]
    new = counter_rng.choose_subset(key, role, valid, length - text.length)
    token, flags = np.full_like(text.token, vocab.pad_id), np.zeros_like(text.flags)
    old = valid & ~new
    token[old], flags[old] = text.token[text.valid], text.flags[text.valid]
    text = NoisyText(token, flags, length)
    return _replace_with_masks(text, new, key, f"{role} new", vocab, random_fraction)


def rotate_text(text: NoisyText, key: np.ndarray, rate: float) -> NoisyText:
    """With probability `rate`, rotates a text to begin at a uniform position."""
    draw = counter_rng.uniform(key, "rotate", 2)
    offset = (draw[:, 1] * text.length).astype(np.int64)
    offset = np.where(draw[:, 0] < rate, offset, 0)
    index = np.arange(text.token.shape[1])
    size = np.maximum(text.length, 1)[:, None]
    order = np.where(text.valid, (index + offset[:, None]) % size, index)
    return _reorder(text, order)


def _choose_words(
    text: NoisyText,
    key: np.ndarray,
    role: str,
    vocab: VocabInfo,
    rate: float,
    unit: str,
) -> np.ndarray:
    """[B, W] bool: the tokens of a random fraction `rate` of the words."""
    words = find_words(text, vocab, unit)
    count = ceil_fraction(rate, words.valid.sum(axis=1))
    chosen = counter_rng.choose_subset(key, role, words.valid, count)
    return _tokens_of_words(words, chosen)


def _assign_span_lengths(
    words: Words, length: np.ndarray, drawn: np.ndarray, key: np.ndarray
) -> np.ndarray:
    """[B, M]: number of words of the span that begins at each word; 0: no span."""
    positive = drawn & (length > 0)
    count = positive.sum(axis=1)
    word = counter_rng.first_in_random_order(key, "begin", words.valid, count)
    is_span = np.arange(word.shape[1]) < count[:, None]
    in_order = np.zeros(word.shape, np.int64)
    in_order[is_span] = length[positive]
    span = np.zeros(words.valid.shape, np.int64)
    np.put_along_axis(span, word, in_order, axis=1)
    return span


def _tokens_of_words(words: Words, chosen: np.ndarray) -> np.ndarray:
    """[B, W] bool: the tokens of the chosen words [B, M]."""
    token = np.zeros(words.candidate.shape, bool)
    token[words.candidate] = np.repeat(chosen[words.valid], words.size)
    return token


def _replace_with_masks(
    text: NoisyText,
    chosen: np.ndarray,
    key: np.ndarray,
    role: str,
    vocab: VocabInfo,
    random_fraction: float,
) -> NoisyText:
    """The text with masks at `chosen` [B, W], a fraction of them ordinary tokens."""
    token = spans.replace_tokens(
        text.token,
        chosen,
        key,
        vocab,
        role=role,
        mask_fraction=1 - random_fraction,
        random_fraction=random_fraction,
    )
    return text._replace(token=token)


def _keep(text: NoisyText, kept: np.ndarray, vocab: VocabInfo) -> NoisyText:
    """The text of the tokens that `kept` [B, W] marks, without gaps."""
    length = kept.sum(axis=1)
    valid = np.arange(kept.shape[1]) < length[:, None]
    token, flags = np.full_like(text.token, vocab.pad_id), np.zeros_like(text.flags)
    token[valid], flags[valid] = text.token[kept], text.flags[kept]
    return NoisyText(token, flags, length)


def _reorder(text: NoisyText, order: np.ndarray) -> NoisyText:
    """The text whose token i is token order[:, i] of `text`, with order [B, W]."""
    return text._replace(
        token=np.take_along_axis(text.token, order, axis=1),
        flags=np.take_along_axis(text.flags, order, axis=1),
    )
