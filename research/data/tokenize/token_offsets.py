"""The characters of a text for which each of its tokens stands."""

# T tokens, U units

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

    In a unit the characters of its pieces are counted. If their number differs from the
    unit's (normalised or unknown text), each piece stands for the whole unit.
    """
    units = vocabulary.split(text)
    if vocabulary.joins_units:
        return _of_spans(text, units, vocabulary)
    encoded = vocabulary.encode_units(units)
    unit_begin, unit_size = np.empty((2, len(units)), np.int64)
    position = 0
    for number, unit in enumerate(units):
        surface = unit[1:] if unit[0] in _PREFIXES else unit
        position = text.index(surface, position)
        unit_begin[number], unit_size[number] = position, len(surface)
        position += len(surface)
    kept = np.flatnonzero(encoded.count)  # others have no token
    units, count = [units[number] for number in kept], encoded.count[kept]
    unit_begin, unit_size = unit_begin[kept], unit_size[kept]
    size = vocabulary.piece_characters[encoded.token]
    unit = np.repeat(np.arange(len(units)), count)
    through = np.cumsum(size)
    first = np.cumsum(count) - count
    before_unit = (through - size)[first] if len(units) else through
    total = np.add.reduceat(size, first) if len(units) else through
    spaces = np.array([not each.startswith(_PREFIXES) for each in units], np.int64)
    spaces = np.where(total == unit_size + spaces, spaces, 0)
    end = through - before_unit[unit] - spaces[unit]
    begin = np.maximum(end - size, 0)
    end = np.maximum(end, begin + 1)  # a piece that is a space, or part of a character
    exact = (total == unit_size + spaces)[unit]
    begin = np.where(exact, np.minimum(begin, unit_size[unit] - 1), 0)
    end = np.where(exact, np.minimum(end, unit_size[unit]), unit_size[unit])
    return TokenOffsets(unit_begin[unit] + begin, unit_begin[unit] + end)


def _of_spans(text: str, spans: list[str], vocabulary: Vocabulary) -> TokenOffsets:
    """The characters of the tokens of spans, by the tokenizer, which knows them."""
    located = vocabulary.locate_units(spans)
    size = np.array([len(sentences.spell_unit(span)) for span in spans], np.int64)
    first = np.repeat(np.cumsum(size) - size, located.count)
    begin, end = first + located.begin, first + located.end
    shown = [text[a:b] for a, b in zip(begin, end, strict=True)]
    spaces = [len(each) - len(each.lstrip()) for each in shown]
    return TokenOffsets(np.where(begin + spaces < end, begin + spaces, begin), end)


_PREFIXES = (sentences.JOINED, sentences.NO_SPACE)


def first_token_at(offsets: TokenOffsets, character: int | np.ndarray) -> np.ndarray:
    """The first token that stands for a character or a later one, else the last."""
    found = np.searchsorted(offsets.end, character, side="right")
    return np.minimum(found, max(len(offsets.end) - 1, 0))


def first_token_of_each(offsets: TokenOffsets, starts: np.ndarray) -> np.ndarray:
    """[P] int64: the first token of each part of a text; -1: the part has none.

    A part has none of its own if the tokenizer's normalisation leaves nothing of it, as
    of a zero width space, or if its token stands for the next part, too.

    Args:
      starts: [P], the characters at which parts start: the first at 0.
    """
    first = np.searchsorted(offsets.end, starts, side="right")
    return np.where(np.diff(first, append=len(offsets.end)) > 0, first, -1)


def last_token_at(offsets: TokenOffsets, character: int | np.ndarray) -> np.ndarray:
    """The last token that stands for a character or an earlier one, else the first."""
    return np.maximum(np.searchsorted(offsets.begin, character, side="right") - 1, 0)
