"""Whole sentences across documents (RoBERTa's FULL-SENTENCES)."""

from dataclasses import dataclass

import numpy as np

from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing.sentences import (
    cut_long_sentences,
    find_sentences,
    row_spans,
)


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """A row has the separator between two documents.

    A sentence that is longer than a row is cut, and continues in the next row.
    """

    structure = 2

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        text, cut = cut_long_sentences(find_sentences(stream), self.length)
        edges = np.searchsorted(text.start, stream.shard_offsets)
        return row_spans(stream, text, edges, self.length, cut)
