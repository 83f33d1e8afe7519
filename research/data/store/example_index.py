"""Which spans of a stream are examples: a small table of starts and lengths."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from research.batch import TextSpec
from research.data import cache as caches
from research.data.store import packing
from research.data.store.stream import Stream
from research.errors import UserError, unknown

# N examples

TYPES = {"start": np.int64, "length": np.int32, "label": np.int32}
SECOND = {"second": np.int64, "second_length": np.int32}
VERSION = 2
"""To be raised when the same input would give another index."""


class Index(NamedTuple):
    """The examples of one stream, in the order of the text; memory-mapped."""

    start: np.ndarray  # [N] int64, in tokens
    length: np.ndarray  # [N] int32, in tokens, at least 1
    label: np.ndarray  # [N] int32, into the stream's label names; -1: none. Of pairs
    # NEXT, OTHER_DOCUMENT or NONADJACENT
    second: np.ndarray | None  # [N] int64: start of a pair's second span
    second_length: np.ndarray | None  # [N] int32, at least 1
    counts: dict[str, int]  # see `build`
    fingerprint: str


class Spans(NamedTuple):
    """What a unit makes of a stream."""

    start: np.ndarray
    length: np.ndarray
    label: np.ndarray | int = -1
    second: np.ndarray | None = None
    second_length: np.ndarray | None = None
    total: int = 0  # tokens there are to read
    truncated: int = 0
    cut: int = 0


def build(stream: Stream, reads: TextSpec, stride: int, cache: Path) -> Index:
    """The index, read from `cache` if it was ever built.

    Units:
      stream: an example starts every `stride` tokens of a shard (0: every
        `reads.stride`, or else `reads.length`) and reads `reads.length` from there, or
        what the shard still has; so the number of examples depends on the stride alone.
      document: the beginning of a document, without its separator.
      sentences: whole sentences up to `reads.length` tokens, across documents, with
        the separator between two (RoBERTa's FULL-SENTENCES).
      passage: whole sentences of one document (DOC-SENTENCES, SpanBERT).
      pair, sentence_pair: two spans, see `packing.pairs`.

    A sentence that is longer than a row of `sentences` or `passage` is cut, and goes on
    in the next row. Units but `stream` start where text or the row before it says, so
    they have no stride.

    Counts, over all examples:
      skipped: tokens of text that no example reads.
      repeated: tokens that are read again, as often as they are.
      truncated: tokens that pairs leave out since they are too long.
      cut: sentences that are longer than a row.

    Raises:
      UserError: there is no such unit, it has no stride or one of its own, the text
        has too few documents for pairs, or the cache cannot be written.
    """
    if reads.unit not in UNITS:
        raise unknown("unit of text", reads.unit, UNITS)
    if stride and reads.unit != "stream":
        raise UserError(
            f"data.stride is {stride}, but this objective reads {MEANING[reads.unit]}, "
            "which start where the text says; set data.stride=0"
        )
    if stride and reads.stride and stride != reads.stride:
        raise UserError(
            f"data.stride is {stride}, but this objective remembers what it read, and "
            f"goes on after {reads.stride} tokens; set data.stride=0"
        )
    stride = reads.stride or stride
    made_of = {
        "version": VERSION,
        "stream": stream.fingerprint,
        "reads": [*reads[: TextSpec._fields.index("contiguous")]],
        "stride": stride,
    }

    def make(folder: Path) -> dict[str, int]:
        spans = UNITS[reads.unit](stream, reads, stride)
        for name, dtype in (TYPES | SECOND).items():
            if (array := getattr(spans, name)) is not None:
                array = np.broadcast_to(array, spans.start.shape)
                np.save(folder / f"{name}.npy", array.astype(dtype))
        return {"counts": _count(spans)}

    folder = caches.once(cache, "index", made_of, make)
    names = [*TYPES, *(SECOND if reads.unit in PAIRS else ())]
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}
    return Index(
        **dict.fromkeys(SECOND) | arrays,
        counts=caches.read_meta(folder)["counts"],
        fingerprint=folder.name,
    )


def _windows(stream: Stream, reads: TextSpec, stride: int) -> Spans:
    """Spans at even distances within each shard."""
    stride = stride or reads.length
    shard = stream.shard_offsets
    start = np.concatenate([np.arange(*ends, stride) for ends in pairwise(shard)])
    end = shard[np.searchsorted(shard, start, side="right")]
    length = np.minimum(reads.length, end - start)
    return Spans(start, length, total=stream.num_tokens)


def _documents(stream: Stream, reads: TextSpec, stride: int) -> Spans:
    """The beginning of each document that has any text."""
    start = np.asarray(stream.document_offsets[:-1])
    whole = stream.document_offsets[1:] - start - stream.separator_length
    some = whole > 0
    start, whole, label = start[some], whole[some], stream.labels[some]
    length = np.minimum(reads.length, whole)
    return Spans(start, length, label, total=int(whole.sum()))


def _sentences(stream: Stream, reads: TextSpec, stride: int) -> Spans:
    """Whole sentences, in rows that no edge of a shard or a document lies in."""
    text, cut = packing.cut(packing.sentences(stream), reads.length)
    edges = text.first
    if reads.unit == "sentences":
        edges = np.searchsorted(text.start, stream.shard_offsets)
    start, length = packing.fill(text, edges, reads.length)
    document = stream.document_offsets
    inside = np.searchsorted(document, start + length)
    inside -= np.searchsorted(document, start, side="right")
    separators = int(inside.sum()) * stream.separator_length
    return Spans(start, length, total=int(text.ends[-1]) + separators, cut=cut)


def _pairs(stream: Stream, reads: TextSpec, stride: int) -> Spans:
    text = packing.sentences(stream)
    made = packing.pairs(text, reads)
    return Spans(**made._asdict(), total=int(text.ends[-1]))


UNITS = {
    "stream": _windows,
    "document": _documents,
    "sentences": _sentences,
    "passage": _sentences,
    "pair": _pairs,
    "sentence_pair": _pairs,
}
PAIRS = ("pair", "sentence_pair")
"""Units whose examples are two spans."""

MEANING = {
    "document": "documents",
    "sentences": "whole sentences",
    "passage": "whole sentences",
    "pair": "pairs of sentences",
    "sentence_pair": "pairs of sentences",
}


def _count(spans: Spans) -> dict[str, int]:
    """How many of all tokens no example reads, and how many are read again."""
    start, length = spans.start, spans.length
    if spans.second is not None:
        start = np.concatenate([start, spans.second])
        length = np.concatenate([length, spans.second_length])
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + length)[order]
    reached = np.maximum.accumulate(np.append(0, end))
    read = int(np.maximum(end - np.maximum(start, reached[:-1]), 0).sum())
    return {
        "skipped": spans.total - read,
        "repeated": int(length.sum()) - read,
        "truncated": spans.truncated,
        "cut": spans.cut,
    }
