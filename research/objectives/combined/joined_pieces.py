"""The arrays of packed rows, from those of their pieces.

The entries of an array are those of all chunks concatenated, followed by the value for
columns without a piece. Each array of the rows is one gather from these entries.
"""

# B rows, P pieces of a batch, n pieces of a chunk, E entries, M entries that are used

from typing import NamedTuple

import numpy as np

from research.contract.batch import NEVER
from research.objectives.combined.packed_layout import (
    INDEX_ARRAYS,
    SLOT_WEIGHTS,
    Layout,
    Role,
)


class Chunk(NamedTuple):
    """Pieces that were corrupted in one call."""

    number: np.ndarray  # [n], their numbers in the batch
    arrays: dict[str, np.ndarray]  # [n, ...] each


class Moves(NamedTuple):
    """The entries that are used, and their destinations: [M] each."""

    source: np.ndarray  # index of the entry
    piece: np.ndarray  # index of its piece, in the order of the chunks
    column: np.ndarray  # column in the row of the piece


def find_keys(segment: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Where a network input has a token that is not a query; bool of the same shape."""
    return (segment > 0) & (rank != NEVER)


class JoinedPieces:
    """Concatenates the arrays of pieces that share a row."""

    def __init__(self, chunks: list[Chunk], row: np.ndarray, layout: Layout):
        """row: [P], ascending, the row of each piece by the piece's number."""
        numbers = [np.zeros(0, np.int64), *(chunk.number for chunk in chunks)]
        self.chunks, self.layout, self.row = chunks, layout, row
        self.number = np.concatenate(numbers)

    def arrays(self, num_rows: int, pad_id: int) -> dict[str, np.ndarray]:
        """The arrays of a batch of B = `num_rows` rows."""
        if not self.chunks:
            return {
                name: np.full((num_rows, *spec.shape), _fill(name, pad_id), spec.dtype)
                for name, spec in self.layout.specs.items()
            }
        segments = np.zeros(len(self.number), np.int32)
        for group in self.layout.num_keys:
            begin = self._begins(group + "token")
            most = np.maximum.reduceat(self._entries(group + "segment"), begin)
            segments = np.maximum(segments, most)
        before = self._sum_before(segments).astype(np.int32)
        batch: dict[str, np.ndarray] = {}
        for group in self.layout.num_keys:
            batch |= self._join(group, before, num_rows, pad_id)
        return {name: batch[name] for name in self.layout.specs}

    def _join(
        self, group: str, segments_before: np.ndarray, num_rows: int, pad_id: int
    ) -> dict[str, np.ndarray]:
        """The arrays of one group.

        Args:
          segments_before: [P], the number of segments before each piece in its row.
        """
        begin = self._begins(group + "token")
        moves = self._find_moves(group, begin)
        column = self._entries(group + "position")
        column[moves[False].source] = moves[False].column
        row, batch = self.row[self.number], {}
        for by_slot, (source, piece, target) in moves.items():
            roles = self.layout.roles.items()
            names = [name for name, role in roles if role == Role(group, by_slot)]
            (width,) = self.layout.specs[names[0]].shape
            entry = np.full(num_rows * width, -1)
            entry[row[piece] * width + target] = source
            for name in names:
                array = self._entries(name, _fill(name, pad_id))
                if by_slot and name.endswith(INDEX_ARRAYS):
                    prefix = group.removesuffix("decoder_")
                    scores = self._entries(prefix + "weight")[source] > 0
                    index = column[begin[piece] + array[source]]
                    array[source] = np.where(scores, index, 0)
                elif name.endswith("segment"):
                    offset = np.repeat(segments_before, self._widths(name))
                    array[:-1] += np.where(array[:-1] > 0, offset, 0)
                batch[name] = array.take(entry).reshape(num_rows, width)
        return batch

    def _find_moves(self, group: str, begin: np.ndarray) -> dict[bool, Moves]:
        """The moves of positions (False) and, if these are listed, of slots (True)."""
        segment, rank = (self._entries(group + name) for name in ("segment", "rank"))
        key, first_query = find_keys(segment, rank), self.layout.num_keys[group]
        positions = self._moves(key, begin)
        if first_query < self.layout.specs[group + "token"].shape[0]:
            queries = self._moves((segment > 0) & ~key, begin, first_query)
            parts = zip(positions, queries, strict=True)
            positions = Moves(*map(np.concatenate, parts))
        prefix = group.removesuffix("decoder_")
        if prefix + "scored" not in self.layout.roles:
            return {False: positions}
        names = (prefix + name for name in SLOT_WEIGHTS)
        weights = [name for name in names if name in self.layout.roles]
        used = np.any([self._entries(name) > 0 for name in weights], axis=0)
        slots = self._moves(used, self._begins(prefix + "weight"))
        return {False: positions, True: slots}

    def _moves(self, used: np.ndarray, begin: np.ndarray, first: int = 0) -> Moves:
        """The moves of the `used` entries [E] to columns of rows from `first` on."""
        source = np.flatnonzero(used)
        count = np.diff(np.searchsorted(source, np.append(begin, len(used))))
        shift = first + self._sum_before(count) - (np.cumsum(count) - count)
        column = np.arange(len(source)) + np.repeat(shift, count)
        return Moves(source, np.repeat(np.arange(len(count)), count), column)

    def _sum_before(self, count: np.ndarray) -> np.ndarray:
        """[P]: the sum of `count` [P] over the pieces before each piece in its row."""
        by_number = np.empty_like(count)
        by_number[self.number] = count
        before = np.cumsum(by_number) - by_number
        before -= before[np.searchsorted(self.row, self.row)]
        return before[self.number]

    def _entries(self, name: str, fill: int = 0) -> np.ndarray:
        """[E + 1]: the entries of an array, followed by `fill`."""
        last: np.ndarray = np.array([fill], self.layout.specs[name].dtype)
        return np.concatenate([*(c.arrays[name].ravel() for c in self.chunks), last])

    def _widths(self, name: str) -> np.ndarray:
        """[P]: the number of entries of each piece."""
        num, width = np.transpose([chunk.arrays[name].shape for chunk in self.chunks])
        return np.repeat(width, num)

    def _begins(self, name: str) -> np.ndarray:
        """[P]: the index of the first entry of each piece."""
        width = self._widths(name)
        return np.cumsum(width) - width


def _fill(name: str, pad_id: int) -> int:
    """The value of an array in columns without a piece."""
    return pad_id if name.endswith(("token", "target")) else 0
