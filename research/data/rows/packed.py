"""Documents, or pieces of long ones, packed into rows by best-fit decreasing."""

from dataclasses import dataclass

import numpy as np

from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing import documents


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """`length` is that of a piece, including the separator after its document.

    See `packing.documents`.
    """

    packing = "best_fit"

    @property
    def width(self) -> int:
        """R: a piece and a separator."""
        return self.length + 1

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        pieces = documents.pack_documents(stream, self.length)
        size = documents.text_sizes(stream)
        separators = int(np.count_nonzero(size)) * stream.separator_length
        first = pieces.first[:-1]
        return Spans(
            pieces.start[first],
            np.add.reduceat(pieces.length, first),
            total=int(size.sum()) + separators,
            cut=int(np.count_nonzero(size > self.length)),
            pieces=pieces,
        )
