"""Pairs of segments, as ELECTRA makes them."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from research.contract.batch import NEXT
from research.data import counter_rng
from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing.pairs import draw_targets, in_turns
from research.data.rows.packing.sentences import Sentences, find_sentences

ONE_SEGMENT_RATE = 0.1
MIN_TARGET = 5
"""The fraction of rows with one segment in any case, and the shortest target length of
a row, including specials (released code)."""


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """google-research/electra, build_pretraining_dataset.py, ExampleBuilder.

    A row has a target length: L = `length` + 2 tokens or, for the fraction `short_rate`
    of rows, uniform in MIN_TARGET .. L. Sentences are gathered until they have as many
    tokens. The first span has (target - 3) // 2 of them, the target of the first
    segment, and the second span the others; `sentence_pairs.fill_segments` assigns the
    sentences to segments. A row with fewer tokens, and the fraction ONE_SEGMENT_RATE of
    all rows, consists of the first span only.
    """

    short_rate: float = 0.0  # fraction that is cut to a random length, drawn uniformly

    has_pairs = pair_labels = has_copies = True

    @property
    def width(self) -> int:
        """R: more than the row, since its first segment may take a later sentence."""
        return self.length + self.length // 2

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        return self.pairs(find_sentences(stream))

    def pairs(self, text: Sentences) -> Spans:
        """The rows of some sentences.

        Raises:
          UserError: there is no room for two tokens.
        """
        rows = in_turns(text, self, partial(self._next_rows, text, text.ends))
        truncated = int(rows.pop("truncated").sum())
        return Spans(**rows, total=int(text.ends[-1]), truncated=truncated)

    def _next_rows(self, text: Sentences, ends, document, begin, key):
        """The next row of each document [A], and where the text continues.

        Args:
          ends: `text.ends`.
          document, begin, key: [A], each document's number, the sentence at which its
            row begins, and the row's key.
        """
        length = self.length + 2
        last = text.first[document + 1]
        target = draw_targets(key, self.short_rate, MIN_TARGET, length)
        stop = np.searchsorted(ends, ends[begin] + target)
        stop = np.minimum(np.maximum(stop, begin + 1), last)
        total, half = ends[stop] - ends[begin], (target - 3) // 2
        one = counter_rng.uniform(key, "halves", 1)[:, 0] < ONE_SEGMENT_RATE
        one |= (total < half) | (total == 1)
        first = np.where(one, total, np.minimum(half, total - 1))
        read = np.minimum(total, self.width)
        first = np.minimum(first, read)
        return {
            "start": text.start[begin],
            "length": first,
            "second": text.start[begin] + np.minimum(first, read - 1),
            "second_length": read - first,
            "label": np.full(len(begin), NEXT),
            "truncated": np.maximum(total - (length - 3 + one), 0),
            "next_begin": stop,
        }
