"""Where words start: at white space, at and after punctuation, at each CJK character.

The characters are BERT's (google-research/bert, tokenization.py): ASCII symbols and the
Unicode categories P for punctuation, and the blocks of CJK ideographs.
"""

import functools
import unicodedata

import numpy as np

_IDEOGRAPHS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))
_LAST = 0x30000  # from here on no character stands alone
_SPACE = 0x20


@functools.cache
def stands_alone() -> np.ndarray:
    """[code point] bool: characters that are words of their own; see `alone`."""
    table = np.zeros(_LAST + 1, bool)
    for point in range(_IDEOGRAPHS[-1][0]):
        table[point] = unicodedata.category(chr(point))[0] == "P"
    table[[*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127)]] = True
    for first, last in _IDEOGRAPHS:
        table[first : last + 1] = True
    return table


def points(text: str) -> np.ndarray:
    """[characters] uint32: code points."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def alone(point: np.ndarray) -> np.ndarray:
    """bool: which code points stand alone."""
    return stands_alone()[np.minimum(point, _LAST)]


def ideograph(point: np.ndarray) -> np.ndarray:
    """bool: which code points are CJK ideographs."""
    return np.any([(a <= point) & (point <= b) for a, b in _IDEOGRAPHS], axis=0)


def starts(text: bytes) -> np.ndarray:
    """[bytes + 1] bool: a word starts at this byte of UTF-8, judged by characters.

    A word starts at a character that stands alone and after one, but not right after a
    space: there it is the space that starts it.
    """
    point = points(text.decode("utf-8"))
    width = 1 + (point >= 0x80) + (point >= 0x800) + (point >= 0x10000)
    here = alone(point)
    here[1:] |= here[:-1].copy()
    here[1:] &= point[:-1] != _SPACE
    found = np.zeros(len(text) + 1, bool)
    found[np.cumsum(width) - width] = here
    return found
