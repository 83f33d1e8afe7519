"""Documents packed into rows by best-fit decreasing (Ding et al. 2024, section 3).

"Fewer Truncations Improve Language Modeling". A document that is longer than a row is
cut into pieces of a row's length and the rest; any other document is one piece. Pieces
are put, longest first, into the fullest row that has room for them.
"""

# P pieces, N packed rows, D documents, n rows

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from research.contract.batch import PIECE, no_value, piece_columns
from research.data.rows import TokenStream

BLOCK = 64
"""Number of tokens that are read at once."""


class Pieces(NamedTuple):
    """The pieces of packed rows, in the order of the rows."""

    start: np.ndarray  # [P] int64, in tokens of the stream
    length: np.ndarray  # [P] int32, at least 1; with the separator after a document
    first: np.ndarray  # [N + 1] int64: the first piece of each row, and P

    def read(
        self,
        stream: TokenStream,
        row: np.ndarray,
        width: int,
        pad_id: int,
        arrays: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Fields of an Example for rows [n]: their pieces, one after the other.

        The first token of a piece has the flag PIECE. `document` is that of the row's
        first piece.
        """
        first = self.first[row]
        count = self.first[row + 1] - first
        end = np.cumsum(count)
        piece = np.repeat(first - (end - count), count) + np.arange(count.sum())
        start, length = self.start[piece], self.length[piece]
        owner = np.repeat(np.arange(len(row)), count)
        total = np.bincount(owner, length, minlength=len(row)).astype(np.int32)
        here = np.arange(width) < total[:, None]
        token, flags, found = _gather_all(stream, start, length, arrays)
        offsets = stream.document_offsets
        document = np.searchsorted(offsets, self.start[first], side="right") - 1
        return {
            "token": _at(here, token, pad_id),
            "flags": _at(here, flags, 0),
            "length": total,
            "first_length": total,
            "document": document,
            "arrays": {
                name: _at(here, values, no_value(values.dtype))
                for name, values in found.items()
            },
        }


def _at(here: np.ndarray, values: np.ndarray, others: int) -> np.ndarray:
    """[n, R]: the values where `here` [n, R] is true, and `others` elsewhere."""
    array = np.full(here.shape, others, values.dtype)
    array[here] = values
    return array


def _gather_all(
    stream: TokenStream, start: np.ndarray, length: np.ndarray, arrays: Sequence[str]
):
    """Tokens, flags and arrays of pieces [n], one after the other.

    Each piece starts with the flag PIECE.

    They are read in blocks, most of which are full.
    """
    count = -(-length // BLOCK)
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    start = np.repeat(start, count) + nth * BLOCK
    size = np.minimum(np.repeat(length, count) - nth * BLOCK, BLOCK)
    token, flags = stream.gather(start, size, BLOCK, 0)
    flags[nth == 0, 0] |= PIECE
    inside = np.arange(BLOCK) < size[:, None]
    found = stream.gather_arrays(arrays, start, size, BLOCK)
    arrays = {name: array[inside] for name, array in found.items()}
    return token[inside], flags[inside], arrays


def pack_documents(stream: TokenStream, length: int) -> Pieces:
    """The packed rows of all documents with text, in the order of their first pieces.

    The pieces of a row are in the order of the text. A piece has at most `length`
    tokens, and a row as many columns as such a piece.
    """
    start, size = cut_documents(stream, length)
    columns = piece_columns(size, length)
    row = best_fit_decreasing(columns, int(piece_columns(length, length)))
    order = np.argsort(row, kind="stable")  # pieces were in the order of the text
    _, first = np.unique(row[order], return_index=True)
    count = np.diff(np.append(first, len(row)))
    by_text = np.argsort(start[order[first]])
    rank = np.empty_like(by_text)
    rank[by_text] = np.arange(len(by_text))
    order = order[np.argsort(np.repeat(rank, count), kind="stable")]
    start, size = start[order], size[order]
    document = np.searchsorted(stream.document_offsets, start, side="right")
    text_end = stream.document_offsets[document] - stream.separator_length
    length = size + stream.separator_length * (start + size == text_end)
    return Pieces(start, length, np.append(0, np.cumsum(count[by_text])))


def text_sizes(stream: TokenStream) -> np.ndarray:
    """[D] int64: tokens of each document, without its separator."""
    return np.diff(stream.document_offsets) - stream.separator_length


def cut_documents(stream: TokenStream, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Start and size of pieces of up to `length` tokens of text: [P] int64 each."""
    begin, text = stream.document_offsets[:-1], text_sizes(stream)
    count = -(-text // length)
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    start = np.repeat(begin, count) + nth * length
    return start, np.minimum(length, np.repeat(text, count) - nth * length)


def best_fit_decreasing(size: np.ndarray, capacity: int) -> np.ndarray:
    """[P] int64: the row of each item, by best-fit decreasing.

    Items are sorted by size, largest first, ties in their order; each goes into the row
    with the least sufficient room, the first if there are several, or into a new row.
    Items of one size that find rows of equal room are placed at once, so that the time
    grows mainly with the number of sizes, not of items.

    Args:
      size: [P], each in 1..capacity.
    """
    row_of = np.empty(len(size), np.int64)
    order = np.argsort(-size, kind="stable")
    sizes, counts = np.unique(size, return_counts=True)
    rows_with = [[] for _ in range(capacity + 1)]  # room -> arrays of rows
    num_rows = begin = 0
    for each, count in zip(sizes[::-1].tolist(), counts[::-1].tolist(), strict=True):
        items = order[begin : begin + count]
        begin += count
        for room in range(each, capacity + 1):
            if not len(items):
                break
            fit = room // each
            if room == capacity:  # as many new rows as the other items need
                rows_with[room] = [num_rows + np.arange(-(-len(items) // fit))]
                num_rows += len(rows_with[room][0])
            if not rows_with[room]:
                continue
            rows = np.sort(np.concatenate(rows_with[room]))
            used, unused = np.split(rows, [-(-len(items) // fit)])
            rows_with[room] = [unused] if len(unused) else []
            taken, items = np.split(items, [fit * len(used)])
            row_of[taken] = np.repeat(used, fit)[: len(taken)]
            left = np.full(len(used), room - fit * each)
            left[-1] += each * (fit * len(used) - len(taken))
            for rest in np.unique(left).tolist():
                rows_with[rest].append(used[left == rest])
    return row_of
