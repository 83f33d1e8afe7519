"""Which spans of a stream are examples: a small table of starts and lengths."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from research.batch import Reads
from research.data import cache as caches
from research.data.stream import Stream
from research.errors import unknown

# N examples

TYPES = {"start": np.int64, "length": np.int32, "label": np.int32}
VERSION = 1
"""To be raised when the same input would give another index."""


class Index(NamedTuple):
    """The examples of one stream, in the order of the text; memory-mapped."""

    start: np.ndarray  # [N] int64, in tokens
    length: np.ndarray  # [N] int32, in tokens, at least 1
    label: np.ndarray  # [N] int32, into the stream's label names; -1: none
    skipped: int  # tokens of text that no example reads
    repeated: int  # tokens that are read again, as often as they are
    fingerprint: str


def build(stream: Stream, reads: Reads, stride: int, cache: Path) -> Index:
    """The index, read from `cache` if it was ever built.

    Unit "stream": an example starts every `stride` tokens of a shard (0: every
    `reads.length`) and reads `reads.length` from there, or what the shard still has;
    so the number of examples depends on the stride alone. Unit "document": an example
    is the beginning of a document, without its separator.

    Raises:
      UserError: there is no such unit, or the cache cannot be written.
    """
    if reads.unit not in UNITS:
        raise unknown("unit of text", reads.unit, UNITS)
    made_of = {
        "version": VERSION,
        "stream": stream.fingerprint,
        "reads": list(reads),
        "stride": stride,
    }

    def make(folder: Path) -> dict[str, int]:
        start, length, label, total = UNITS[reads.unit](stream, reads.length, stride)
        for name, array in zip(TYPES, (start, length, label), strict=True):
            np.save(folder / f"{name}.npy", array.astype(TYPES[name]))
        return _count(start, length, total)

    folder = caches.once(cache, "index", made_of, make)
    meta = caches.read_meta(folder)
    return Index(
        *(np.load(folder / f"{name}.npy", mmap_mode="r") for name in TYPES),
        skipped=meta["skipped"],
        repeated=meta["repeated"],
        fingerprint=folder.name,
    )


def _windows(stream: Stream, length: int, stride: int):
    """Spans at even distances within each shard."""
    stride = stride or length
    shard = stream.shard_offsets
    start = np.concatenate([np.arange(*ends, stride) for ends in pairwise(shard)])
    end = shard[np.searchsorted(shard, start, side="right")]
    unlabelled = np.full(len(start), -1)
    return start, np.minimum(length, end - start), unlabelled, stream.num_tokens


def _documents(stream: Stream, length: int, stride: int):
    """The beginning of each document that has any text."""
    start = np.asarray(stream.document_offsets[:-1])
    whole = stream.document_offsets[1:] - start - stream.separator_length
    some = whole > 0
    start, whole, label = start[some], whole[some], stream.labels[some]
    return start, np.minimum(length, whole), label, whole.sum()


UNITS = {"stream": _windows, "document": _documents}


def _count(start: np.ndarray, length: np.ndarray, total: int) -> dict[str, int]:
    """How many of `total` tokens no example reads, and how many are read again."""
    ahead = np.append(np.diff(start), np.iinfo(np.int32).max)
    read = np.minimum(length, ahead).sum(dtype=np.int64)
    repeated = length.sum(dtype=np.int64) - read
    return {"skipped": int(total - read), "repeated": int(repeated)}
