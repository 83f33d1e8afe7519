"""Where words start: at white space, at and after punctuation, at each CJK character.

The characters are BERT's (google-research/bert, tokenization.py): ASCII symbols and the
Unicode categories P for punctuation, and the blocks of CJK ideographs.
"""

import functools
import unicodedata

import numpy as np

_CJK_BLOCKS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FA1F))
_TABLE_END = 0x30000  # no code point from here on is a word of its own
_SPACE = 0x20


@functools.cache
def _own_word_table() -> np.ndarray:
    """[code point] bool: see `is_own_word`; its last entry is for all from its end."""
    table = np.zeros(_TABLE_END + 1, bool)
    for code_point in range(_CJK_BLOCKS[-1][0]):
        table[code_point] = unicodedata.category(chr(code_point))[0] == "P"
    table[[*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127)]] = True
    for first, last in _CJK_BLOCKS:
        table[first : last + 1] = True
    return table


def code_points(text: str) -> np.ndarray:
    """[characters] uint32: the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def is_own_word(code_point: np.ndarray) -> np.ndarray:
    """bool: code points that are words of their own: punctuation and ideographs."""
    return _own_word_table()[np.minimum(code_point, _TABLE_END)]


def is_ideograph(code_point: np.ndarray) -> np.ndarray:
    """bool: code points that are CJK ideographs."""
    return np.any(
        [(first <= code_point) & (code_point <= last) for first, last in _CJK_BLOCKS],
        axis=0,
    )


def word_start_bytes(text: bytes) -> np.ndarray:
    """[bytes + 1] bool: whether a word starts at each byte of UTF-8.

    A word starts at a character that is a word of its own and after one, but not right
    after a space: there the word starts at the space. A byte of a character whose other
    bytes are unknown is part of a word.
    """
    code_point = code_points(text.decode("utf-8", "surrogateescape"))
    width = 1 + (code_point >= 0x80) + (code_point >= 0x800) + (code_point >= 0x10000)
    width[(code_point >= 0xDC80) & (code_point <= 0xDCFF)] = 1  # single bytes
    starts = is_own_word(code_point)
    starts[1:] |= starts[:-1].copy()
    starts[1:] &= code_point[:-1] != _SPACE
    start_bytes = np.zeros(len(text) + 1, bool)
    start_bytes[np.cumsum(width) - width] = starts
    return start_bytes
