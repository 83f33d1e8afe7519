"""Documents: the beginning of each, without its separator."""

from dataclasses import dataclass

import numpy as np

from research.data.rows import Spans, TextSpec, TokenStream


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """An example is a document with text, up to `length` tokens."""

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        start = np.asarray(stream.document_offsets[:-1])
        size = stream.document_offsets[1:] - start - stream.separator_length
        nonempty = size > 0
        start, size, label = start[nonempty], size[nonempty], stream.labels[nonempty]
        length = np.minimum(self.length, size)
        return Spans(start, length, label, total=int(size.sum()))
