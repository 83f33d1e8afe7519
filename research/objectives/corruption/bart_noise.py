"""BART's noises: a text is written anew with words masked, lost, added or moved.

Each noise is a function of a text and a key, so any of them follow one another. What is
special in a text (a separator between documents, a mask) is no word and stays.
"""

# B batch, W width, M words of a row, D draws

import math
from typing import NamedTuple

import numpy as np

from research.batch import SENTENCE, WORD, VocabInfo
from research.data import counter_rng
from research.objectives.corruption import spans


class Draft(NamedTuple):
    """Rows of tokens; W is the most that any noise may make of them."""

    token: np.ndarray  # [B, W] int32, pad beyond `length`
    flags: np.ndarray  # [B, W] uint8
    length: np.ndarray  # [B]

    @property
    def here(self) -> np.ndarray:
        """[B, W] bool: not padding."""
        return np.arange(self.token.shape[1]) < self.length[:, None]


class Words(NamedTuple):
    """The words of a text, numbered by row."""

    candidate: np.ndarray  # [B, W] bool: tokens of words
    first: np.ndarray  # [B, W] bool: first tokens of words
    size: np.ndarray  # tokens of each word, row by row
    held: np.ndarray  # [B, M] bool: the words there are
    end: np.ndarray  # [B, M]: the first word that no span from here may cover


def words(text: Draft, vocab: VocabInfo, unit: str) -> Words:
    """The words of a text: `unit` "word" by their flags, "token" each token.

    No span goes past what is no word.
    """
    candidate = text.here & ~vocab.is_special[text.token]
    start = candidate if unit == "token" else (text.flags & WORD) > 0
    place, size = counter_rng.find_words(start, candidate)
    row = place // candidate.shape[1]
    count = np.bincount(row, minlength=len(candidate))
    held = np.arange(count.max(initial=0)) < count[:, None]
    joined = np.append(place[1:], -1) == place + size
    joined &= np.append(row[1:], -1) == row
    end = np.full(held.shape, held.shape[1])
    number = np.nonzero(held)[1]
    end[held] = np.where(joined, held.shape[1], number + 1)
    end = np.minimum.accumulate(end[:, ::-1], axis=1)[:, ::-1]
    first = np.zeros(candidate.shape, bool)
    first.reshape(-1)[place] = True
    return Words(candidate, first, size, held, end)


def share(rate: float, count: np.ndarray) -> np.ndarray:
    """[B] int64: a rate of `count`, rounded up."""
    return np.ceil(rate * count - 1e-9).astype(np.int64)


def permute_sentences(text: Draft, key: np.ndarray, rate: float) -> Draft:
    """Puts a share of the sentences, rounded up, into each other's places.

    All orders of them are equally likely. What is before the first flag is a sentence.
    """
    here, width = text.here, text.token.shape[1]
    start = here & ((text.flags & SENTENCE) > 0)
    start[:, 0] = here[:, 0]
    sentence = np.maximum(np.cumsum(start, axis=1) - 1, 0)
    count = start.sum(axis=1)
    number = np.arange(count.max(initial=1))
    moving = number < count[:, None]
    moving = counter_rng.choose_subset(key, "sentences", moving, share(rate, count))
    at = spans.shuffled(np.tile(number, (len(count), 1)), moving, key)
    slot = np.empty_like(at)
    np.put_along_axis(slot, at, np.tile(number, (len(count), 1)).astype(at.dtype), 1)
    slot = np.take_along_axis(slot, sentence, axis=1)
    order = np.argsort(np.where(here, slot, width), axis=1, kind="stable")
    return _taken(text, order)


def mask(text: Draft, key, vocab: VocabInfo, rate: float, *, unit, random) -> Draft:
    """Masks a share of the words, rounded up: each of their tokens.

    random: share of the masks that is an ordinary token in place of it.
    """
    chosen = _chosen(text, key, "mask", vocab, rate, unit)
    return text._replace(token=_masked(text, chosen, key, "masked", vocab, random))


def delete(text: Draft, key, vocab: VocabInfo, rate: float, *, unit: str) -> Draft:
    """Leaves out a share of the words, rounded up."""
    chosen = _chosen(text, key, "delete", vocab, rate, unit)
    return _kept(text, text.here & ~chosen, vocab)


def draw_lengths(key: np.ndarray, budget: np.ndarray, mean: float):
    """Lengths of spans from Poisson(mean) until they add up to the budget.

    The last is trimmed to what is left, so it is never 0; a budget of 0 draws none.

    Args:
      key, budget: [B].

    Returns:
      [B, D] int64, and which of them are drawn, [B, D] bool.
    """
    most = int(mean + 20 * math.sqrt(mean) + 20)
    log_p = [n * math.log(mean) - mean - math.lgamma(n + 1) for n in range(most)]
    below = np.cumsum(np.exp(log_p))[:-1]
    count = 16
    while True:
        draw = counter_rng.uniform(key, "lengths", count)
        length = np.searchsorted(below, draw, side="right").astype(np.int64)
        before = np.cumsum(length, axis=1) - length
        if (before[:, -1] + length[:, -1] >= budget).all():
            left = budget[:, None] - before
            return np.clip(left, 0, length), left > 0
        count *= 2


def infill(
    text: Draft, key, vocab: VocabInfo, rate: float, *, unit, mean, random
) -> Draft:
    """Puts one mask for each span of words, and one where a span has no length.

    A share of the words, rounded up, is the budget of `draw_lengths`. Spans begin at
    different words, all equally likely; where one runs into another they are one.
    Empty spans stand anywhere, as far as there is room.
    """
    found = words(text, vocab, unit)
    length, drawn = draw_lengths(key, share(rate, found.held.sum(axis=1)), mean)
    span = _lengths_of_words(found, length, drawn, key)
    number = np.arange(span.shape[1])
    end = np.where(span > 0, np.minimum(number + span, found.end), 0)
    covered = np.zeros(span.shape, bool)
    covered[:, 1:] = np.maximum.accumulate(end, axis=1)[:, :-1] > number[1:]
    mark = found.first & _tokens(found, (span > 0) & ~covered)
    gone = _tokens(found, (span > 0) | covered) & ~mark
    token = _masked(text, mark, key, "infilled", vocab, random)
    text = _kept(text._replace(token=token), text.here & ~gone, vocab)
    empty = (drawn & (length == 0)).sum(axis=1)
    return insert(text, key, vocab, empty, role="empty", random=random)


def insert(
    text: Draft, key, vocab: VocabInfo, count: np.ndarray, *, role: str, random: float
) -> Draft:
    """Adds `count` [B] masks at random places, or as many as there is room for."""
    width = text.token.shape[1]
    length = np.minimum(text.length + count, width)
    here = np.arange(width) < length[:, None]
    new = counter_rng.choose_subset(key, role, here, length - text.length)
    token, flags = np.full_like(text.token, vocab.pad_id), np.zeros_like(text.flags)
    old = here & ~new
    token[old], flags[old] = text.token[text.here], text.flags[text.here]
    text = Draft(token, flags, length)
    return text._replace(token=_masked(text, new, key, f"{role} new", vocab, random))


def rotate(text: Draft, key: np.ndarray, rate: float) -> Draft:
    """With probability `rate`, begins at a uniform place and goes around."""
    draw = counter_rng.uniform(key, "rotate", 2)
    offset = (draw[:, 1] * text.length).astype(np.int64)
    offset = np.where(draw[:, 0] < rate, offset, 0)
    place = np.arange(text.token.shape[1])
    size = np.maximum(text.length, 1)[:, None]
    order = np.where(text.here, (place + offset[:, None]) % size, place)
    return _taken(text, order)


def _chosen(text, key, role, vocab, rate, unit) -> np.ndarray:
    """[B, W] bool: tokens of a share of the words; all subsets are equally likely."""
    found = words(text, vocab, unit)
    count = share(rate, found.held.sum(axis=1))
    return _tokens(found, counter_rng.choose_subset(key, role, found.held, count))


def _lengths_of_words(found, length, drawn, key) -> np.ndarray:
    """[B, M]: how many words a span that begins here covers; 0: none begins."""
    score = counter_rng.random_bits(key, "begin", found.held.shape[1]) >> np.uint64(1)
    order = np.argsort(np.where(found.held, score, counter_rng.MAX_UINT64), axis=1)
    positive = drawn & (length > 0)
    count = positive.sum(axis=1)
    first = np.arange(found.held.shape[1]) < count[:, None]
    in_order = np.zeros(found.held.shape, np.int64)
    in_order[first] = length[positive]
    span = np.zeros_like(in_order)
    np.put_along_axis(span, order, in_order, axis=1)
    return span


def _tokens(found: Words, chosen: np.ndarray) -> np.ndarray:
    """[B, W] bool: the tokens of the chosen words [B, M]."""
    token = np.zeros(found.candidate.shape, bool)
    token[found.candidate] = np.repeat(chosen[found.held], found.size)
    return token


def _masked(text, chosen, key, role, vocab, random) -> np.ndarray:
    share = dict(mask=1 - random, random=random)
    return spans.replaced(text.token, chosen, key, vocab, role=role, **share)


def _kept(text: Draft, kept: np.ndarray, vocab: VocabInfo) -> Draft:
    """The kept [B, W] tokens, moved together."""
    length = kept.sum(axis=1)
    here = np.arange(kept.shape[1]) < length[:, None]
    token, flags = np.full_like(text.token, vocab.pad_id), np.zeros_like(text.flags)
    token[here], flags[here] = text.token[kept], text.flags[kept]
    return Draft(token, flags, length)


def _taken(text: Draft, order: np.ndarray) -> Draft:
    """The text in another order [B, W] of its places."""
    return text._replace(
        token=np.take_along_axis(text.token, order, axis=1),
        flags=np.take_along_axis(text.flags, order, axis=1),
    )
