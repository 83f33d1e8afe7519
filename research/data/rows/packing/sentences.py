"""The sentences of a stream, and rows of whole sentences."""

# S sentences, D documents with text, N rows

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from research.data.rows import Spans, TokenStream


class Sentences(NamedTuple):
    """The sentences of a stream, without separators."""

    start: np.ndarray  # [S] int64, in tokens of the stream
    end: np.ndarray  # [S] int64
    first: np.ndarray  # [D + 1] int64: the first sentence of each document, and S

    @property
    def ends(self) -> np.ndarray:
        """[S + 1] int64: the tokens of text before each sentence, and of all."""
        return np.concatenate([[0], np.cumsum(self.end - self.start)])


def find_sentences(stream: TokenStream) -> Sentences:
    """The sentences of the documents that have any text."""
    start, end = stream.sentence_offsets[:-1], stream.sentence_offsets[1:].copy()
    first = np.searchsorted(start, stream.document_offsets)
    nonempty = np.flatnonzero(np.diff(first))
    end[first[nonempty + 1] - 1] = stream.document_offsets[nonempty + 1]
    end[first[nonempty + 1] - 1] -= stream.separator_length
    return Sentences(start, end, np.append(first[nonempty], len(start)))


def cut_long_sentences(text: Sentences, length: int) -> tuple[Sentences, int]:
    """The sentences, cut to at most `length` tokens, and how many had to be cut."""
    parts = -(-(text.end - text.start) // length)
    before = np.concatenate([[0], np.cumsum(parts)])
    nth = np.arange(before[-1]) - np.repeat(before[:-1], parts)
    start = np.repeat(text.start, parts) + nth * length
    end = np.minimum(start + length, np.repeat(text.end, parts))
    return Sentences(start, end, before[text.first]), int((parts > 1).sum())


def fill_rows(text: Sentences, edges: np.ndarray, length: int):
    """Rows of consecutive sentences: as many as fit into `length` tokens.

    Args:
      text: no sentence is longer than `length`.
      edges: [E] int64, numbers of sentences; each row lies between two of them.

    Returns:
      start, length [N] int64. A separator between two documents of a row is part of
      the row; one at its end is not.
    """
    following = np.searchsorted(text.end, text.start + length, side="right").tolist()
    first, last = [], []
    for sentence, edge in pairwise(edges.tolist()):
        while sentence < edge:
            first.append(sentence)
            sentence = min(following[sentence], edge)
            last.append(sentence - 1)
    start = text.start[np.array(first, np.int64)]
    return start, text.end[np.array(last, np.int64)] - start


def row_spans(
    stream: TokenStream, text: Sentences, edges: np.ndarray, length: int, cut: int
) -> Spans:
    """Rows of `fill_rows`, and what they leave out.

    Args:
      cut: the number of sentences that were longer than a row.
    """
    start, size = fill_rows(text, edges, length)
    document = stream.document_offsets
    separators = np.searchsorted(document, start + size)
    separators -= np.searchsorted(document, start, side="right")
    inside = int(separators.sum()) * stream.separator_length
    return Spans(start, size, total=int(text.ends[-1]) + inside, cut=cut)
