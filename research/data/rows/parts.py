"""Parts of documents: the first one, and all others."""

from dataclasses import dataclass

import numpy as np

from research.data.documents import Document
from research.data.label_types import Texts
from research.data.rows import Spans, TextSpec, TokenStream
from research.data.rows.packing.pairs import lost_tokens
from research.data.rows.packing.windows import windows


@dataclass(frozen=True, kw_only=True)
class Unit(TextSpec):
    """The longer of the two spans loses tokens at its end until both fit.

    With `tail`, a single part loses tokens before its last ones; unless nothing is left
    before these, they are the second span, which starts no part. With `max_first`, the
    first part has at most that many tokens, and the others the rest of `length`. With
    `stride` as well, the others have what the first part leaves, and every window over
    them is a row (BERT's run_squad.py, doc_spans). With `stride` alone, every window
    over a single part that is too long is a row.
    """

    stride: int = 0  # of windows; 0: there are none
    max_first: int = 0  # tokens of the first part at most; 0: any number
    tail: int = 0  # tokens that a single part which is too long keeps from its end;
    # `length` or more: its end alone
    separators: int = 0  # tokens that two parts have less than one, for the specials
    # between them

    has_pairs = True

    def lacks(self, document: Document) -> str:
        needed = (self.label_type and self.label_type.texts) or Texts(
            1 + bool(self.max_first), "two parts", "text,summary"
        )
        if len(document.starts) + 1 >= needed.count:
            return ""
        return (
            f"texts of {needed.words}; data.fields names them, as in "
            f"data.fields={needed.fields}"
        )

    def spans(self, stream: TokenStream, stride: int) -> Spans:
        start, label = np.asarray(stream.document_offsets[:-1]), stream.labels
        end = stream.document_offsets[1:] - stream.separator_length
        start, end, label = (array[end > start] for array in (start, end, label))
        parts = np.append(stream.part_offsets, stream.num_tokens)
        second = np.minimum(parts[np.searchsorted(parts, start)], end)
        one, two = second - start, end - second
        total = int(one.sum() + two.sum())
        if stride and self.max_first:
            one = np.minimum(one, self.max_first)
            room = np.maximum(self.length - one, 1)
            row, begin, size = windows(second, end, room, stride)
            return Spans(start[row], one[row], label[row], begin, size, total)
        length = self.length - self.separators * (two > 0)
        lost_one, lost_two = lost_tokens(one, two, length)
        if room := self.max_first:
            lost_one = np.maximum(one - room, 0)
            lost_two = np.maximum(two - (self.length - room), 0)
        is_cut = (two == 0) & (lost_one > 0)
        if stride:
            lost_one = np.where(is_cut, 0, lost_one)
        lost = int((lost_one + lost_two).sum())
        spans = Spans(
            start, one - lost_one, label, second, two - lost_two, total, truncated=lost
        )
        if stride:
            return _with_windows(spans, self.length, stride)
        return _with_tails(spans, is_cut, end, min(self.tail, self.length))


def _with_windows(spans: Spans, length: int, stride: int) -> Spans:
    """The spans, with those longer than `length` replaced by windows over them."""
    room = np.full_like(spans.start, length)
    end = spans.start + spans.length
    row, start, size = windows(spans.start, end, room, stride)
    return spans._replace(
        start=start,
        length=size,
        label=spans.label[row],
        second=spans.second[row],
        second_length=spans.second_length[row],
    )


def _with_tails(spans: Spans, is_cut: np.ndarray, end: np.ndarray, tail: int) -> Spans:
    """The spans; those that are cut also have the last `tail` tokens of their text.

    Args:
      is_cut: [N] bool, spans of one part whose text continues to `end` [N].
    """
    if not tail:
        return spans
    from_end = is_cut & (spans.length <= tail)
    both = is_cut & ~from_end
    return spans._replace(
        start=np.where(from_end, end - spans.length, spans.start),
        length=spans.length - tail * both,
        second=np.where(both, end - tail, spans.second),
        second_length=spans.second_length + tail * both,
    )
