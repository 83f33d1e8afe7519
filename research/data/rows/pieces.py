"""Pieces of documents: all of each, in pieces of one length and a rest."""

from dataclasses import dataclass

import numpy as np

from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing.windows import windows


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """A piece has `length` tokens; the last one of a document is what is left."""

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        start, label = np.asarray(stream.document_offsets[:-1]), stream.labels
        end = stream.document_offsets[1:] - stream.separator_length
        start, end, label = (array[end > start] for array in (start, end, label))
        room = np.full_like(start, self.length)
        document, begin, size = windows(start, end, room, self.length)
        return Spans(begin, size, label[document], total=int((end - start).sum()))
