"""How often words meet in a text: the cells that GloVe learns (Pennington et al. 2014).

Of a line's known words each one and the `window` before it meet, at distance k by
1 / k; X(a, b) and X(b, a) both count it, so a word that meets itself counts it twice.
Unknown words take no room (stanfordnlp/GloVe at 52f7dbc: src/vocab_count.c and
src/cooccur.c).
"""

# T tokens of a chunk, V words, C cells

import collections
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

TOKENS_PER_CHUNK = 2**20
"""Tokens whose cells are counted at once, and then added to those before."""


class Cells(NamedTuple):
    """The cells that are not 0."""

    words: list[str]  # [V] by count, descending; of equal ones in alphabetical order
    first: np.ndarray  # [C] int32, number of a word
    second: np.ndarray  # [C] int32
    count: np.ndarray  # [C] float64


def count_words(lines: Iterable[str], min_count: int, most: int = 0) -> list[str]:
    """The words of lines that occur `min_count` times; at most `most`, if not 0."""
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        counts.update(line.split())
    words = sorted(counts, key=lambda word: (-counts[word], word))
    words = [word for word in words if counts[word] >= min_count]
    return words[:most] if most else words


def count_cells(
    lines: Iterable[str], words: list[str], window: int, *, symmetric: bool = True
) -> Cells:
    """The cells of lines.

    Args:
      symmetric: False: a word meets those before it alone, as their second one.
    """
    key, total = np.zeros(0, np.int64), np.zeros(0)
    for token, line in _chunks(lines, words):
        parts, weights = [], []
        for distance in range(1, window + 1):
            left, right = token[:-distance], token[distance:]
            same = line[:-distance] == line[distance:]
            pairs = [(left, right), (right, left)] if symmetric else [(left, right)]
            for first, second in pairs:
                parts.append(first[same] * len(words) + second[same])
                weights.append(np.full(same.sum(), 1 / distance))
        key, place = np.unique(np.concatenate([key, *parts]), return_inverse=True)
        total = np.bincount(place, np.concatenate([total, *weights]), len(key))
    first, second = np.divmod(key, max(len(words), 1))
    return Cells(words, first.astype(np.int32), second.astype(np.int32), total)


def _chunks(
    lines: Iterable[str], words: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers [T] int64 of the known words, and of their lines, of whole lines."""
    index = {word: number for number, word in enumerate(words)}
    token: list[int] = []
    line: list[int] = []
    for number, text in enumerate(lines):
        known = [index[word] for word in text.split() if word in index]
        token += known
        line += [number] * len(known)
        if len(token) >= TOKENS_PER_CHUNK:
            yield np.array(token, np.int64), np.array(line, np.int64)
            token, line = [], []
    if token:
        yield np.array(token, np.int64), np.array(line, np.int64)
