"""Pairs of segments, as BERT makes them."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from research.contract.batch import LONE, NEXT, NONADJACENT, OTHER_DOCUMENT
from research.contract.errors import UserError
from research.data import counter_rng
from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing.pairs import draw_targets, in_turns, truncate
from research.data.rows.packing.sentences import Sentences, find_sentences


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """google-research/bert's create_pretraining_data.

    Sentences of a document are gathered up to a target length, which is `length` or,
    for the fraction `short_rate` of documents, uniform in 2 .. `length`. A is the first
    k of them, k uniform from 1 to all but one. B is one of:

      NEXT: the others.
      OTHER_DOCUMENT, with probability `other_document_rate`, and whenever only one
        sentence was gathered: sentences of a random other document, from a random one
        on, up to the target. In the latter case the label is LONE if `lone`.
      NONADJACENT, with probability `nonadjacent_rate` (NEXT if no sentence is left):
        later sentences of the same document, from a random one on, up to the target;
        at least one is skipped.

    After OTHER_DOCUMENT and NONADJACENT, the next pair starts right after A. While a
    pair is longer than `length`, the longer span loses a token, at its front or back
    at random.
    """

    other_document_rate: float = 0.0  # fraction whose second span is from another
    # document
    nonadjacent_rate: float = 0.0  # fraction whose second span is from the same
    # document but not adjacent
    short_rate: float = 0.0  # fraction that is cut to a random length, drawn uniformly
    lone: bool = False  # whether pairs of a lone sentence have the label LONE

    has_pairs = pair_labels = has_copies = True
    structure = 4
    single = False
    """Whether two sentences are gathered, and A and B are one each."""

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        return self.pairs(find_sentences(stream))

    def pairs(self, text: Sentences) -> Spans:
        """The pairs of some sentences.

        Raises:
          UserError: B may be from another document, but there is only one; or there is
            no room for two tokens.
        """
        num = len(text.first) - 1
        if num < 2:
            raise UserError(
                "pairs of sentences need at least two documents in each split, and one "
                "has fewer; give more text or a larger data.held_out"
            )
        key = counter_rng.row_key(self.copy, np.arange(num), np.zeros(num, np.int64))
        target = draw_targets(key, self.short_rate, 2, self.length)
        rows = in_turns(text, self, partial(self._next_rows, text, text.ends, target))
        return truncate(rows, self.length, int(text.ends[-1]))

    def _next_rows(self, text: Sentences, ends, target, document, begin, key):
        """The next pair of each document [A], and where the text continues.

        A pair is not truncated yet.

        Args:
          ends: `text.ends`.
          target: [D], the target length in tokens of each document.
          document, begin, key: [A], each document's number, the sentence at which its
            pair begins, and the row key.
        """
        single = self.single
        last, target = text.first[document + 1], target[document]

        def run_end(begin, tokens, limit):
            """The end of a run of sentences: one or more, up to `tokens` or `limit`."""
            end = np.maximum(np.searchsorted(ends, ends[begin] + tokens), begin + 1)
            return np.minimum(begin + 1 if single else end, limit)

        stop = np.minimum(begin + 2, last) if single else run_end(begin, target, last)
        draw = counter_rng.uniform(key, "pair", 5)

        def pick(column, count):
            """[A]: uniform in 0 .. count - 1."""
            return (draw[:, column] * count).astype(np.int64)

        middle = begin + 1 + pick(0, np.maximum(stop - begin - 1, 1))
        label = np.full(len(begin), NEXT)
        negative = draw[:, 1] < self.other_document_rate + self.nonadjacent_rate
        label[negative & (last - middle >= 2)] = NONADJACENT
        from_other = draw[:, 1] < self.other_document_rate
        lone = stop - begin == 1
        label[from_other | lone] = OTHER_DOCUMENT
        elsewhere = pick(2, len(text.first) - 2)
        elsewhere += elsewhere >= document
        other_first, other_last = text.first[elsewhere], text.first[elsewhere + 1]
        later = middle + 1 + pick(3, np.maximum(last - middle - 1, 1))
        other = other_first + pick(4, other_last - other_first)
        second = np.choose(label, [middle, other, np.minimum(later, last - 1)])
        limit = np.choose(label, [stop, other_last, last])
        rest = target - (ends[middle] - ends[begin])
        end = np.where(label == NEXT, stop, run_end(second, rest, limit))
        return {
            "start": text.start[begin],
            "length": text.end[middle - 1] - text.start[begin],
            "second": text.start[second],
            "second_length": ends[end] - ends[second],
            "label": np.where(lone & self.lone, LONE, label),
            "key": key,
            "next_begin": np.where(label == NEXT, stop, middle),
        }
