"""Co-occurrence counts of words: the cells that GloVe learns (Pennington et al. 2014).

Each known word of a line co-occurs with the `window` known words before it; a pair at
distance k adds 1 / k to both X(a, b) and X(b, a), so twice if the two words are equal.
Unknown words do not count as distance (stanfordnlp/GloVe at 52f7dbc: src/vocab_count.c
and src/cooccur.c).

Memory is bounded for any length of text: pairs are counted in chunks, whose cells are
written to sorted files, which are then merged (as in src/cooccur.c); and the cells are
shuffled in files that hold a part of them each (src/shuffle.c).
"""

# T tokens of a chunk, V words, C cells

import collections
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

PAIRS_IN_MEMORY = 2**23
"""Pairs or cells that are sorted at once; they take some 100 bytes each."""

MAX_RUNS = 64
"""Sorted files that are merged at once."""

CHARACTERS_AT_ONCE = 2**20
"""Of a line that is split into words."""

CELL = np.dtype([("key", np.int64), ("count", np.float64)])
"""A cell: number of the first word x V + number of the second one, and X."""

_SPACE = re.compile(r"\s")


def count_words(lines: Iterable[str], min_count: int, most: int = 0) -> list[str]:
    """The words that occur at least `min_count` times; at most `most`, if not 0.

    Sorted by count, descending; ties are in alphabetical order.
    """
    counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        for part in _split(line):
            counts.update(part)
    words = [word for word in counts if counts[word] >= min_count]
    words.sort(key=lambda word: (-counts[word], word))
    return words[:most] if most else words


def count_cells(
    lines: Iterable[str],
    words: list[str],
    window: int,
    folder: Path,
    *,
    symmetric: bool = True,
) -> np.ndarray:
    """The nonzero cells of the lines: CELL [C], sorted, in a file of the folder.

    Args:
      folder: for temporary files, about 16 bytes for each cell of a chunk.
      symmetric: False: a word only co-occurs with those before it, as the second one.
    """
    runs = _Runs(folder)
    pairs_per_token = window * (2 if symmetric else 1)
    size = max(1, PAIRS_IN_MEMORY // pairs_per_token)
    for token, line, num_counted in _chunks(lines, words, window, size):
        parts, weights = [], []
        fresh = np.arange(len(token)) >= num_counted
        for distance in range(1, window + 1):
            left, right = token[:-distance], token[distance:]
            met = (line[:-distance] == line[distance:]) & fresh[distance:]
            pairs = [(left, right), (right, left)] if symmetric else [(left, right)]
            for first, second in pairs:
                parts.append(first[met] * len(words) + second[met])
                weights.append(np.full(met.sum(), 1 / distance))
        runs.add(_add_up(np.concatenate(parts), np.concatenate(weights)))
    return runs.merged()


def shuffle_cells(cells: np.ndarray, seed: int, folder: Path) -> Iterator[np.ndarray]:
    """The cells in a random order, in parts; all orders are equally likely."""
    rng = np.random.default_rng(seed)
    num_files = -(-len(cells) // PAIRS_IN_MEMORY)
    files = [folder / f"shuffled{number}" for number in range(num_files)]
    for begin in range(0, len(cells), PAIRS_IN_MEMORY):
        part = cells[begin : begin + PAIRS_IN_MEMORY]
        chosen = rng.integers(num_files, size=len(part))
        for number, file in enumerate(files):
            with file.open("ab") as stream:
                stream.write(part[chosen == number].tobytes())
    for file in files:
        yield rng.permutation(np.fromfile(file, CELL))
        file.unlink()


class _Runs:
    """Sorted files of cells. Those of one level are merged into one of the next."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._levels: list[list[Path]] = []
        self._num_made = 0

    def add(self, cells: np.ndarray, level: int = 0) -> None:
        self._write([cells], level)
        while len(self._levels[level]) == MAX_RUNS:
            self._merge(self._levels[level], level + 1)
            self._levels[level] = []
            level += 1

    def merged(self) -> np.ndarray:
        """All cells, in one file."""
        runs = [run for level in self._levels for run in level]
        if not runs:
            return np.zeros(0, CELL)
        path = runs[0] if len(runs) == 1 else self._merge(runs, len(self._levels))
        return _mapped(path)

    def _merge(self, runs: list[Path], level: int) -> Path:
        path = self._write(_merge(runs), level)
        for run in runs:
            run.unlink()
        return path

    def _write(self, parts: Iterable[np.ndarray], level: int) -> Path:
        path = self._folder / f"run{self._num_made}"
        self._num_made += 1
        with path.open("xb") as stream:
            for part in parts:
                stream.write(part.tobytes())
        self._levels += [[] for _ in range(level + 1 - len(self._levels))]
        self._levels[level].append(path)
        return path


def _mapped(path: Path) -> np.ndarray:
    """The cells of a file that is not empty, memory-mapped."""
    return np.memmap(path, CELL, "r") if path.stat().st_size else np.zeros(0, CELL)


def _merge(runs: list[Path]) -> Iterator[np.ndarray]:
    """The cells of sorted files, sorted, in parts; counts of equal keys are added."""
    left = [cells for cells in map(_mapped, runs) if len(cells)]
    size = max(1, PAIRS_IN_MEMORY // len(runs))
    while left:
        blocks = [np.array(cells[:size]) for cells in left]
        ends = [block["key"][-1] for block, c in zip(blocks, left, strict=True)]
        more = [end for end, c in zip(ends, left, strict=True) if len(c) > size]
        # Up to here, no file has a key that is not in its block.
        bound = min(more, default=max(ends))
        counts = [np.searchsorted(block["key"], bound, "right") for block in blocks]
        parts = [block[:n] for block, n in zip(blocks, counts, strict=True)]
        found = np.concatenate(parts)
        yield _add_up(found["key"], found["count"])
        rest = (cells[n:] for cells, n in zip(left, counts, strict=True))
        left = [cells for cells in rest if len(cells)]


def _add_up(key: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The cells, sorted by key; counts of equal keys are added."""
    found, place = np.unique(key, return_inverse=True)
    cells = np.empty(len(found), CELL)
    cells["key"], cells["count"] = found, np.bincount(place, count, len(found))
    return cells


def _chunks(
    lines: Iterable[str], words: list[str], window: int, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Numbers [T] int64 of the known words and of their lines, and a count.

    The count says how many of them were already in the previous chunk: its last
    `window`, with which the next words co-occur.
    """
    index = {word: number for number, word in enumerate(words)}
    token: list[int] = []
    line: list[int] = []
    num_counted = 0
    for number, text in enumerate(lines):
        for part in _split(text):
            known = [index[word] for word in part if word in index]
            token += known
            line += [number] * len(known)
            while len(token) - num_counted >= size:
                end = num_counted + size
                yield np.array(token[:end]), np.array(line[:end]), num_counted
                begin = max(0, end - window)
                token, line, num_counted = token[begin:], line[begin:], end - begin
    if len(token) > num_counted:
        yield np.array(token), np.array(line), num_counted


def _split(line: str) -> Iterator[list[str]]:
    """The words of a line, some at a time, since a line may be the whole text."""
    begin = 0
    while begin < len(line):
        space = _SPACE.search(line, begin + CHARACTERS_AT_ONCE)
        end = space.start() if space else len(line)
        yield line[begin:end].split()
        begin = end
