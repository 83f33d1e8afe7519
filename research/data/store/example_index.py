"""An index of examples: the spans of a token stream that objectives read."""

# N examples, n rows

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.contract.batch import LONE
from research.contract.errors import UserError
from research.data import cache, counter_rng
from research.data.documents import label_key
from research.data.rows import Spans, TextSpec
from research.data.rows.packing.documents import Pieces
from research.data.store.ranges import in_range, spans_in_shards
from research.data.store.stream import Stream

DTYPES = {"start": np.int64, "length": np.int32, "label": np.int32}
PAIR_DTYPES = {"second": np.int64, "second_length": np.int32}
PIECE_DTYPES = Pieces(np.int64, np.int32, np.int64)
VERSION = 3
"""Raise it when a change here makes another index of the same stream."""
FIRST_FIELDS = ("other_document_rate", "nonadjacent_rate", "short_rate")
"""Fields of units that every cache key has, by position; it has other fields by name if
they are not the defaults."""


class Index(NamedTuple):
    """The examples of one stream, in the order of the text; memory-mapped."""

    stream: Stream
    start: np.ndarray  # [N] int64, in tokens; for packed rows that of the first piece
    length: np.ndarray  # [N] int32, in tokens, at least 1; for packed rows the sum
    label: np.ndarray  # [N] int32, index into the stream's label names, -1: none; of
    # pairs NEXT, OTHER_DOCUMENT, NONADJACENT or LONE
    second: np.ndarray | None  # [N] int64: start of a pair's second span
    second_length: np.ndarray | None  # [N] int32; 0 in a row of one span
    stride: int  # of a stream, tokens from one start to the next; else 0
    counts: dict[str, int]  # see `build_index`
    fingerprint: str
    pair_labels: bool = False  # whether labels are those of pairs
    pieces: Pieces | None = None  # of packed rows

    def label_table(self, known: Sequence[str]) -> np.ndarray:
        """[n + 1] int32: what examples have for each of the n labels; last, for none.

        Labels of pairs are unchanged; those of documents are in `name_table`.
        """
        if self.pair_labels:
            return np.arange(LONE + 1, dtype=np.int32)
        return self.name_table(known)

    def name_table(self, known: Sequence[str]) -> np.ndarray:
        """[n + 1] int32: the index of each of the stream's n labels in `known`, or -1.

        `known` is empty if the objective reads no labels. The last entry is -1.
        """
        numbers = {label_key(name): number for number, name in enumerate(known)}
        names = self.stream.label_names
        found = (numbers.get(label_key(name), -1) for name in names)
        return np.array([*found, -1], np.int32)

    def read(
        self,
        row: np.ndarray,
        width: int,
        pad_id: int,
        key: np.ndarray | None = None,
        arrays: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Fields of an Example for rows [n] of the index; a pair's spans are joined.

        Args:
          arrays: names of the stream's arrays that are read.
          key: [n] uint64, with which `TextSpec.random_start` draws where rows start;
            None: they start where the index says.
        """
        if self.pieces is not None:
            return self.pieces.read(self.stream, row, width, pad_id, arrays)
        start, first_length = self.start[row], self.length[row]
        if key is not None:
            start, first_length = self._draw_starts(start, width, key)
        length = first_length
        token, flags = self.stream.gather(start, length, width, pad_id)
        found = self.stream.gather_arrays(arrays, start, length, width)
        document = np.searchsorted(self.stream.document_offsets, start, side="right")
        if self.second is not None:
            second_length = self.second_length[row]
            length = first_length + second_length
            span = self.second[row], second_length, width
            second = self.stream.gather(*span, pad_id)
            offset = np.arange(width) - first_length[:, None]
            in_row = width * np.arange(len(row))[:, None] + np.maximum(offset, 0)
            token, flags = (
                np.where(offset < 0, a, b.take(in_row))
                for a, b in zip((token, flags), second, strict=True)
            )
            of_tokens = [name for name in arrays if found[name].ndim == 2]
            for name, array in self.stream.gather_arrays(of_tokens, *span).items():
                found[name] = np.where(offset < 0, found[name], array.take(in_row))
        return {
            "token": token,
            "flags": flags,
            "length": length,
            "first_length": first_length,
            "document": document - 1,
            "arrays": found,
        }

    def _draw_starts(
        self, start: np.ndarray, width: int, key: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Starts [n] moved by up to a stride, and lengths [n] of the rows from there.

        All tokens of the stride are equally likely, except at the end of a shard: there
        a row starts early enough to have `width` tokens, or stays where it was.
        """
        ends = self.stream.shard_offsets
        end = ends[np.searchsorted(ends, start, side="right")]
        offset = counter_rng.uniform(key, "random start", 1)[:, 0] * self.stride
        latest = np.maximum(start, end - width)
        start = np.minimum(start + offset.astype(np.int64), latest)
        return start, np.minimum(width, end - start).astype(np.int32)


def build_index(
    stream: Stream, text_spec: TextSpec, stride: int, cache_dir: Path
) -> Index:
    """The index of a stream, read from the cache if it was built before.

    Counts, over all examples:
      skipped: tokens of text in no example.
      repeated: tokens that are read again, counted each time.
      truncated: tokens that are left out because a text or pair is too long.
      cut: sentences (packed: documents) that are longer than a row.

    Raises:
      UserError: the unit has no stride or a stride of its own, the text is too short
        for it, or the cache cannot be written.
    """
    _check_stride(text_spec, stride)
    stride = text_spec.stride or stride

    def create(folder: Path) -> dict[str, dict[str, int]]:
        return _save_arrays(folder, text_spec.spans(stream, stride))

    def find_damage(folder: Path) -> str:
        arrays = _load_arrays(folder, text_spec.has_pairs)
        if text_spec.has_pieces:
            return _damaged_pieces(_load_pieces(folder), arrays, stream, text_spec)
        return _find_damage(arrays, stream, pair_labels=text_spec.pair_labels)

    cache_key = _cache_key(stream, text_spec, stride)
    folder = cache.get_or_create(
        cache_dir, "index", cache_key, create, find_damage=find_damage
    )
    return Index(
        stream,
        **_load_arrays(folder, text_spec.has_pairs),
        stride=(stride or text_spec.length) if text_spec.takes_stride else 0,
        counts=cache.read_meta(folder)["counts"],
        fingerprint=folder.name,
        pair_labels=text_spec.pair_labels,
        pieces=_load_pieces(folder) if text_spec.has_pieces else None,
    )


def _cache_key(stream: Stream, text_spec: TextSpec, stride: int) -> dict:
    """Everything on which the arrays of an index depend."""
    fields = text_spec.index_fields() | {"stride": stride}
    first = [fields.pop(name, 0.0) for name in FIRST_FIELDS]
    reads = [text_spec.unit, text_spec.length, *first]
    return dict(version=VERSION, stream=stream.fingerprint, reads=reads, **fields)


def _check_stride(text_spec: TextSpec, stride: int) -> None:
    """Raises UserError: see `build_index`."""
    if stride and not text_spec.takes_stride:
        raise UserError(
            f"data.stride is {stride}, but this objective reads text of the unit "
            f"{text_spec.unit!r}, whose starts the text determines; set data.stride=0"
        )
    if stride and text_spec.stride and stride != text_spec.stride:
        raise UserError(
            f"data.stride is {stride}, but this objective continues each row after "
            f"{text_spec.stride} tokens; set data.stride=0"
        )


def _save_arrays(folder: Path, spans: Spans) -> dict[str, dict[str, int]]:
    """Writes the arrays of an index; returns its counts, for `meta.json`."""
    for name, dtype in (DTYPES | PAIR_DTYPES).items():
        if (array := getattr(spans, name)) is not None:
            array = np.broadcast_to(array, spans.start.shape)
            np.save(folder / f"{name}.npy", array.astype(dtype))
    if spans.pieces is not None:
        for name, dtype in PIECE_DTYPES._asdict().items():
            array = getattr(spans.pieces, name).astype(dtype)
            np.save(folder / f"piece_{name}.npy", array)
    return {"counts": _count_tokens(spans)}


def _load_arrays(folder: Path, is_pair: bool) -> dict[str, np.ndarray | None]:
    """The memory-mapped arrays of an `Index`; for pairs, also those of second spans."""
    names = [*DTYPES, *(PAIR_DTYPES if is_pair else ())]
    arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}
    return dict.fromkeys(PAIR_DTYPES) | arrays


def _load_pieces(folder: Path) -> Pieces:
    """The pieces of packed rows, memory-mapped."""
    files = (folder / f"piece_{name}.npy" for name in Pieces._fields)
    return Pieces(*(np.load(file, mmap_mode="r") for file in files))


def _find_damage(
    arrays: dict[str, np.ndarray | None], stream: Stream, *, pair_labels: bool
) -> str:
    """The first file with numbers that an index of the stream cannot have, else ""."""
    shards, is_pair = stream.shard_offsets, arrays["second"] is not None
    spans = [("start", "length", 1), ("second", "second_length", 0)]
    for start, length, least in spans[: 1 + is_pair]:
        if not spans_in_shards(arrays[start], arrays[length], shards, least=least):
            return f"{start}.npy with {length}.npy has spans outside the stream"
    num_labels = LONE + 1 if pair_labels else len(stream.label_names)
    if not in_range(arrays["label"], -1, num_labels):
        return "label.npy has numbers out of their range"
    return ""


def _damaged_pieces(
    pieces: Pieces,
    rows: dict[str, np.ndarray | None],
    stream: Stream,
    text_spec: TextSpec,
) -> str:
    """The first file with numbers that packed rows cannot have, else ""."""
    if not spans_in_shards(pieces.start, pieces.length, stream.shard_offsets, least=1):
        return "piece_start.npy with piece_length.npy has spans outside the stream"
    first, num = pieces.first, len(pieces.start)
    if len(first) != len(rows["start"]) + 1 or not in_range(first[:-1], 0, num):
        return "piece_first.npy does not divide the pieces into rows"
    length = np.add.reduceat(pieces.length, first[:-1])
    if (length != rows["length"]).any() or length.max() > text_spec.width:
        return "piece_first.npy and piece_length.npy do not have the rows of length.npy"
    if (first[1:] <= first[:-1]).any() or first[-1] != num:
        return "piece_first.npy does not divide the pieces into rows"
    if not in_range(rows["start"], 0, stream.num_tokens):
        return "start.npy has spans outside the stream"
    return "" if in_range(rows["label"], -1, 0) else "label.npy has labels"


def _count_tokens(spans: Spans) -> dict[str, int]:
    """The counts of `build_index`."""
    start, length, *_ = spans.pieces or spans
    if spans.second is not None:
        start = np.concatenate([start, spans.second])
        length = np.concatenate([length, spans.second_length])
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + length)[order]
    covered_to = np.maximum.accumulate(np.append(0, end))
    covered = int(np.maximum(end - np.maximum(start, covered_to[:-1]), 0).sum())
    return {
        "skipped": spans.total - covered,
        "repeated": int(length.sum()) - covered,
        "truncated": spans.truncated,
        "cut": spans.cut,
    }
