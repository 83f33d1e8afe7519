"""Streams: spans at even distances, whatever is in them."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from research.data.rows import Spans, TextSpec, TokenStream, not_indexed


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """An example starts every `stride` tokens of a shard.

    It has `length` tokens, or the rest of the shard; so the number of examples depends
    only on the stride. With `random_start`, the start is drawn later.
    """

    stride: int = 0  # tokens from the start of one example to the next; 0: data.stride

    # Row r of a step continues where row r of the previous step ended; whether half of
    # the rows read their stream from its end to its start; whether a row starts at a
    # random token of its stride, drawn with its key, so that a row of which only the
    # beginning is read may begin anywhere.
    contiguous: bool = not_indexed(False)
    reverse: bool = not_indexed(False)
    random_start: bool = not_indexed(False)

    takes_stride = True
    structure = 1

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        stride = stride or self.length
        shard = stream.shard_offsets
        start = np.concatenate([np.arange(*ends, stride) for ends in pairwise(shard)])
        end = shard[np.searchsorted(shard, start, side="right")]
        length = np.minimum(self.length, end - start)
        return Spans(start, length, total=stream.num_tokens)
