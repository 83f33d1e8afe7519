"""Units of text: which tokens of a stream each example of an index reads."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from research.batch import TextSpec
from research.data.store import packed_documents, packing
from research.data.store.packed_documents import Pieces
from research.data.store.stream import Stream


class Spans(NamedTuple):
    """The examples of one unit of text, and what they leave out."""

    start: np.ndarray
    length: np.ndarray
    label: np.ndarray | int = -1
    second: np.ndarray | None = None
    second_length: np.ndarray | None = None
    total: int = 0  # tokens of text
    truncated: int = 0
    cut: int = 0
    pieces: Pieces | None = None  # of packed rows; `start` is that of the first one


def _stream_spans(stream: Stream, text_spec: TextSpec, stride: int) -> Spans:
    """Spans at even distances within each shard."""
    stride = stride or text_spec.length
    shard = stream.shard_offsets
    start = np.concatenate([np.arange(*ends, stride) for ends in pairwise(shard)])
    end = shard[np.searchsorted(shard, start, side="right")]
    length = np.minimum(text_spec.length, end - start)
    return Spans(start, length, total=stream.num_tokens)


def _document_spans(stream: Stream, text_spec: TextSpec, stride: int) -> Spans:
    """The beginning of each document that has any text."""
    start = np.asarray(stream.document_offsets[:-1])
    size = stream.document_offsets[1:] - start - stream.separator_length
    nonempty = size > 0
    start, size, label = start[nonempty], size[nonempty], stream.labels[nonempty]
    length = np.minimum(text_spec.length, size)
    return Spans(start, length, label, total=int(size.sum()))


def _piece_spans(stream: Stream, text_spec: TextSpec, stride: int) -> Spans:
    """Documents cut into pieces, the last of which is what is left."""
    start, label = np.asarray(stream.document_offsets[:-1]), stream.labels
    end = stream.document_offsets[1:] - stream.separator_length
    start, end, label = (array[end > start] for array in (start, end, label))
    room = np.full_like(start, text_spec.length)
    document, begin, size = _windows(start, end, room, text_spec.length)
    return Spans(begin, size, label[document], total=int((end - start).sum()))


def _sentence_spans(stream: Stream, text_spec: TextSpec, stride: int) -> Spans:
    """Rows of whole sentences, within a shard (`sentences`) or document (`passage`)."""
    text = packing.find_sentences(stream)
    text, cut = packing.cut_long_sentences(text, text_spec.length)
    edges = text.first
    if text_spec.unit == "sentences":
        edges = np.searchsorted(text.start, stream.shard_offsets)
    start, length = packing.fill_rows(text, edges, text_spec.length)
    document = stream.document_offsets
    separators = np.searchsorted(document, start + length)
    separators -= np.searchsorted(document, start, side="right")
    inside = int(separators.sum()) * stream.separator_length
    return Spans(start, length, total=int(text.ends[-1]) + inside, cut=cut)


def _packed_spans(stream: Stream, text_spec: TextSpec, stride: int) -> Spans:
    """Rows of documents, see `packed_documents`."""
    pieces = packed_documents.pack_documents(stream, text_spec.length)
    size = packed_documents.text_sizes(stream)
    separators = int(np.count_nonzero(size)) * stream.separator_length
    first = pieces.first[:-1]
    return Spans(
        pieces.start[first],
        np.add.reduceat(pieces.length, first),
        total=int(size.sum()) + separators,
        cut=int(np.count_nonzero(size > text_spec.length)),
        pieces=pieces,
    )


def _pair_spans(
    stream: Stream, text_spec: TextSpec, stride: int, copy: int = 0
) -> Spans:
    text = packing.find_sentences(stream)
    pairs = packing.make_pairs(text, text_spec, copy)
    return Spans(**pairs._asdict(), total=int(text.ends[-1]))


def _part_spans(stream: Stream, text_spec: TextSpec, stride: int) -> Spans:
    """The first part of each document and its other parts, or windows over text."""
    start, label = np.asarray(stream.document_offsets[:-1]), stream.labels
    end = stream.document_offsets[1:] - stream.separator_length
    start, end, label = (array[end > start] for array in (start, end, label))
    parts = np.append(stream.part_offsets, stream.num_tokens)
    second = np.minimum(parts[np.searchsorted(parts, start)], end)
    one, two = second - start, end - second
    total = int(one.sum() + two.sum())
    if stride and text_spec.max_first:
        one = np.minimum(one, text_spec.max_first)
        room = np.maximum(text_spec.length - one, 1)
        row, begin, size = _windows(second, end, room, stride)
        return Spans(start[row], one[row], label[row], begin, size, total)
    length = text_spec.length - text_spec.separators * (two > 0)
    lost_one, lost_two = packing.lost_tokens(one, two, length)
    if room := text_spec.max_first:
        lost_one = np.maximum(one - room, 0)
        lost_two = np.maximum(two - (text_spec.length - room), 0)
    is_cut = (two == 0) & (lost_one > 0)
    if stride:
        lost_one = np.where(is_cut, 0, lost_one)
    lost = int((lost_one + lost_two).sum())
    spans = Spans(
        start, one - lost_one, label, second, two - lost_two, total, truncated=lost
    )
    if stride:
        return _with_windows(spans, text_spec.length, stride)
    return _with_tails(spans, is_cut, end, min(text_spec.tail, text_spec.length))


def _windows(begin: np.ndarray, end: np.ndarray, room: np.ndarray, stride: int):
    """Windows over the texts from `begin` to `end` [N], of `room` [N] tokens each.

    Returns:
      of each window, its text, where it begins, and its tokens; the last one of a text
      alone has its end.
    """
    step = np.minimum(stride, room)
    count = 1 + -(-np.maximum(end - begin - room, 0) // step)
    text = np.repeat(np.arange(len(begin)), count)
    nth = np.arange(len(text)) - np.repeat(np.cumsum(count) - count, count)
    first = begin[text] + nth * step[text]
    return text, first, np.minimum(room[text], end[text] - first)


def _with_windows(spans: Spans, length: int, stride: int) -> Spans:
    """Spans of which those that are longer than `length` are windows over them."""
    room = np.full_like(spans.start, length)
    end = spans.start + spans.length
    row, start, size = _windows(spans.start, end, room, stride)
    return spans._replace(
        start=start,
        length=size,
        label=spans.label[row],
        second=spans.second[row],
        second_length=spans.second_length[row],
    )


def _with_tails(spans: Spans, is_cut: np.ndarray, end: np.ndarray, tail: int) -> Spans:
    """Spans of which those that are cut have the last `tail` tokens of their text.

    Args:
      is_cut: [N] bool, spans of one part whose text goes on to `end` [N].
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


TEXT_UNITS = {
    "stream": _stream_spans,
    "document": _document_spans,
    "pieces": _piece_spans,
    "sentences": _sentence_spans,
    "passage": _sentence_spans,
    "packed": _packed_spans,
    "pair": _pair_spans,
    "sentence_pair": _pair_spans,
    "halves": _pair_spans,
    "parts": _part_spans,
}
PAIR_UNITS = ("pair", "sentence_pair", "halves", "parts")
"""Units whose examples are two spans."""

UNIT_DESCRIPTIONS = {
    "document": "documents",
    "pieces": "pieces of documents",
    "sentences": "whole sentences",
    "passage": "whole sentences",
    "packed": "documents packed into rows",
    "pair": "pairs of sentences",
    "sentence_pair": "pairs of sentences",
    "halves": "pairs of segments",
    "parts": "parts of documents",
}
