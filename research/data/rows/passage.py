"""Whole sentences of one document (RoBERTa's DOC-SENTENCES, SpanBERT)."""

from dataclasses import dataclass

from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing.sentences import (
    cut_long_sentences,
    find_sentences,
    row_spans,
)


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """A sentence that is longer than a row is cut, and continues in the next row."""

    structure = 3

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        text, cut = cut_long_sentences(find_sentences(stream), self.length)
        return row_spans(stream, text, text.first, self.length, cut)
