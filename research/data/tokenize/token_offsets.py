"""The characters of a text that each of its tokens stands for."""

# T tokens, U units

import unicodedata
from typing import NamedTuple

import numpy as np

from research.data.read import sentences
from research.data.tokenize.vocabulary import Vocabulary


class TokenOffsets(NamedTuple):
    """The characters [begin, end) of each token, at least one, in text order."""

    begin: np.ndarray  # [T] int64
    end: np.ndarray  # [T] int64


def token_offsets(text: str, vocabulary: Vocabulary) -> TokenOffsets:
    """The characters (code points) of each token of a text, without its separator.

    They are aligned by the vocabulary's normalizer. All tokens of a character stand for
    it; the mark of a word's start stands for the word's first character. A letter for
    which the normalizer yields nothing, such as a combining mark that it removes or
    joins to the previous letter, belongs to the token before it.
    """
    units = vocabulary.split(text)
    located = vocabulary.locate_units(units)
    size = np.array([len(sentences.spell_unit(unit)) for unit in units], np.int64)
    if vocabulary.keep_whitespace:  # units cover the whole text
        last = np.cumsum(size) - vocabulary.num_added_spaces(text)
        start = last - size
        first = np.maximum(start, 0)
    else:
        first = _find_units(text, units)
        has_space = [unit[0] not in _PREFIXES for unit in units]
        start = first - np.array(has_space, np.int64)
        last = start + size
    unit = np.repeat(np.arange(len(units)), located.count)
    begin = np.clip(start[unit] + located.begin, first[unit], last[unit] - 1)
    end = np.clip(start[unit] + located.end, begin + 1, last[unit])
    limit = last[unit]
    limit[:-1] = np.minimum(limit[:-1], begin[1:])
    for token in np.flatnonzero(end < limit):
        while end[token] < limit[token] and _belongs(text[end[token]]):
            end[token] += 1
    if vocabulary.keep_whitespace:
        shown = [text[a:b] for a, b in zip(begin, end, strict=True)]
        spaces = np.array([len(s) - len(s.lstrip()) for s in shown], np.int64)
        begin = np.where(begin + spaces < end, begin + spaces, begin)
    return TokenOffsets(begin, end)


_PREFIXES = (sentences.JOINED, sentences.NO_SPACE)


def _find_units(text: str, units: list[str]) -> np.ndarray:
    """[U] int64: where the units of a text start, between white space."""
    begin, position = np.empty(len(units), np.int64), 0
    for number, unit in enumerate(units):
        surface = unit[1:] if unit[0] in _PREFIXES else unit
        begin[number] = text.index(surface, position)
        position = begin[number] + len(surface)
    return begin


def _belongs(character: str) -> bool:
    """Whether a character without a token is part of the letter before it.

    White space and control and format characters are not.
    """
    return unicodedata.category(character)[0] not in "CZ"


def first_token_at(offsets: TokenOffsets, character: int | np.ndarray) -> np.ndarray:
    """The first token that stands for this or a later character, else the last."""
    found = np.searchsorted(offsets.end, character, side="right")
    return np.minimum(found, max(len(offsets.end) - 1, 0))


def first_token_of_each(offsets: TokenOffsets, starts: np.ndarray) -> np.ndarray:
    """[P] int64: the first token of each part of a text; -1: the part has none.

    A part has none of its own if the tokenizer's normalisation removes all of it, e.g.
    a zero width space, or if its token also stands for the next part.

    Args:
      starts: [P], the characters at which parts start; the first is 0.
    """
    first = np.searchsorted(offsets.end, starts, side="right")
    return np.where(np.diff(first, append=len(offsets.end)) > 0, first, -1)


def last_token_at(offsets: TokenOffsets, character: int | np.ndarray) -> np.ndarray:
    """The last token that stands for this or an earlier character, else the first."""
    return np.maximum(np.searchsorted(offsets.begin, character, side="right") - 1, 0)
