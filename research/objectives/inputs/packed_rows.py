"""Any objective on packed rows: each document is an example of its own in its row.

The pieces of a row are corrupted by their own keys as if each were alone, and their
arrays are put one after the other. Segments stay distinct, so that no piece attends to
another one; positions restart.
"""

# B batch, P pieces of a batch, R raw tokens of a row

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from research.batch import (
    NEVER,
    PIECE,
    PIECE_SPECIALS,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
)
from research.data import counter_rng
from research.objectives.inputs.packed_layout import (
    INDEX_ARRAYS,
    Layout,
    make_layout,
    reads_separators,
)


@dataclass(frozen=True)
class PackedRows:
    """An objective whose rows are packed; all other members are those of `objective`.

    Packing is the same for all objectives: a piece of n tokens takes
    `batch.piece_columns(n)` of the `length` columns of a row, whatever its arrays take.
    """

    objective: Any

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.objective, name)

    @property
    def min_length(self) -> int:
        shortest = self.objective.text_spec(self.objective.min_length).length
        return shortest + PIECE_SPECIALS

    def for_evaluation(self) -> "PackedRows":
        return self

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("packed", length - PIECE_SPECIALS)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Raises UserError: examples of the objective cannot be joined."""
        return make_layout(self.objective, length).specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Corrupts the pieces, whose first tokens have the flag PIECE, and joins them.

        Raises:
          UserError: as the objective's own; or its examples cannot be joined.
        """
        layout = make_layout(self.objective, length)
        pieces = _split(
            example, key, vocab, separators=reads_separators(self.objective)
        )
        chunks = self._corrupt_pieces(pieces, example, vocab, layout)
        batch = {
            name: np.full(
                (len(key), *spec.shape),
                vocab.pad_id if name.endswith(("token", "target")) else 0,
                spec.dtype,
            )
            for name, spec in layout.specs.items()
        }
        _join(batch, chunks, pieces.row, layout)
        return batch

    def _corrupt_pieces(
        self, pieces: "Pieces", example: Example, vocab: VocabInfo, layout: Layout
    ) -> list["Chunk"]:
        """The arrays of all pieces, those of equal length together.

        Pieces that by chance have more positions than at their own length are corrupted
        again at that.
        """
        chunks, own_length = [], layout.own_length[pieces.size]
        todo = np.arange(len(own_length))
        lengths = layout.corrupted_length(pieces.size)
        while len(todo):
            too_long = [np.zeros(0, np.int64)]
            for length in np.unique(lengths[todo]).tolist():
                number = todo[lengths[todo] == length]
                width = self.objective.text_spec(length).width
                text = _example_of(pieces, number, example, vocab, width)
                key = pieces.key[number]
                arrays = self.objective.corrupt(text, key, vocab, length)
                masks = {group: _masks(arrays, group) for group in layout.num_keys}
                fits = np.ones(len(number), bool)
                for group, most in layout.max_positions.items():
                    num_keys = masks[group]["key"].sum(axis=1)
                    fits &= num_keys <= most[pieces.size[number]]
                chunk = Chunk(number, arrays, masks)
                chunks.append(chunk if fits.all() else _select(chunk, fits))
                too_long.append(number[~fits])
            todo = np.concatenate(too_long)
            lengths[todo] = own_length[todo]
        return chunks


class Chunk(NamedTuple):
    """Pieces that were corrupted together."""

    number: np.ndarray  # [n], among the pieces of the batch
    arrays: dict[str, np.ndarray]  # [n, ...] each
    masks: dict[str, dict[str, np.ndarray]]  # group -> `_masks`


def _select(chunk: Chunk, kept: np.ndarray) -> Chunk:
    """The pieces of a chunk that are `kept` [n]."""
    arrays = {name: array[kept] for name, array in chunk.arrays.items()}
    masks = {
        group: {k: m[kept] for k, m in own.items()}
        for group, own in chunk.masks.items()
    }
    return Chunk(chunk.number[kept], arrays, masks)


class Pieces(NamedTuple):
    """The pieces of a batch, row by row: [P] each."""

    row: np.ndarray
    begin: np.ndarray  # where it begins among the raw tokens of the row
    size: np.ndarray  # raw tokens
    key: np.ndarray  # uint64


def _split(
    example: Example, key: np.ndarray, vocab: VocabInfo, *, separators: bool
) -> Pieces:
    """The pieces of rows.

    separators: whether one that is at the end of a piece is part of it.
    """
    start = (example.flags & PIECE) > 0
    start[:, :1] = True
    start &= np.arange(start.shape[1]) < example.length[:, None]
    row, begin = np.nonzero(start)
    is_last = np.append(row[1:] != row[:-1], True)[: len(row)]
    end = np.where(is_last, example.length[row], np.append(begin[1:], 0)[: len(row)])
    size = (end - begin).astype(np.int32)
    if not separators:
        size -= example.token[row, end - 1] == vocab.eos_id
    count = start.sum(axis=1)
    number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    keys = counter_rng.random_bits(key, "piece", int(count.max(initial=0)))
    return Pieces(row, begin, size, keys[row, number])


def _example_of(
    pieces: Pieces, number: np.ndarray, example: Example, vocab: VocabInfo, width: int
) -> Example:
    """The text of the pieces of these numbers [n], in `width` columns."""
    row, begin, size = pieces.row[number], pieces.begin[number], pieces.size[number]
    column = np.arange(width)
    inside = column < size[:, None]
    num_raw = example.token.shape[1]
    index = (row * num_raw + begin)[:, None] + column
    token = example.token.ravel().take(index, mode="clip")
    flags = example.flags.ravel().take(index, mode="clip") & ~np.uint8(PIECE)
    return Example(
        token=np.where(inside, token, vocab.pad_id).astype(np.int32),
        flags=np.where(inside, flags, 0).astype(np.uint8),
        length=size,
        label=np.full_like(size, -1),
        first_length=size,
        corpus=example.corpus[row],
        step=example.step[row],
        document=example.document[row],
        tag=np.zeros((len(row), 0), np.int32),
    )


def _masks(arrays: dict[str, np.ndarray], group: str) -> dict[str, np.ndarray]:
    """What is used of a group of arrays: bool of its keys, queries and scored slots."""
    visible = arrays[group + "segment"] > 0
    is_query = visible & (arrays[group + "rank"] == NEVER)
    masks = {"key": visible & ~is_query, "query": is_query}
    prefix = group.removesuffix("decoder_")
    if prefix + "scored" in arrays:
        masks["slot"] = arrays[prefix + "weight"] > 0
    return masks


def _join(
    batch: dict[str, np.ndarray], chunks: list["Chunk"], row: np.ndarray, layout: Layout
) -> None:
    """Writes what is used of the arrays of all pieces to the rows of `batch`.

    Args:
      row: [P], of each piece.
    """
    groups = tuple(layout.num_keys)
    segments = np.zeros(len(row), np.int64)
    for number, arrays, _ in chunks:
        most = [arrays[group + "segment"].max(axis=1, initial=0) for group in groups]
        segments[number] = np.max(most, axis=0)
    before = _sum_before(segments, row)
    for group in groups:
        first = {}
        for kind in chunks[0].masks[group] if chunks else ():
            count = np.zeros(len(row), np.int64)
            for number, _, masks in chunks:
                count[number] = masks[group][kind].sum(axis=1)
            first[kind] = _sum_before(count, row)
        first["query"] = first.get("query", 0) + layout.num_keys[group]
        for chunk in chunks:
            own = {kind: place[chunk.number] for kind, place in first.items()}
            _write(batch, chunk, group, own, row, before, layout)


def _write(
    batch: dict[str, np.ndarray],
    chunk: "Chunk",
    group: str,
    first: dict[str, np.ndarray],
    row: np.ndarray,
    segments_before: np.ndarray,
    layout: Layout,
) -> None:
    """Writes the arrays of one group of some pieces.

    Args:
      first: the place of each piece's first key, query and slot: [n] each.
      row, segments_before: [P], of each piece.
    """
    masks = chunk.masks[group]
    place = {
        kind: first[kind][:, None] + np.cumsum(mask, axis=1) - 1
        for kind, mask in masks.items()
    }
    position = np.where(masks["query"], place["query"], place["key"])
    columns = {False: (masks["key"] | masks["query"], position)}
    if "slot" in masks:
        columns[True] = masks["slot"], place["slot"]
    own = {n: role for n, role in layout.roles.items() if role.group == group}
    widths = {role.by_slot: batch[name].shape[1] for name, role in own.items()}
    from_to = {}
    for by_slot, (mask, column) in columns.items():
        index = row[chunk.number][:, None] * widths[by_slot] + column
        from_to[by_slot] = np.flatnonzero(mask), index[mask]
    for name, role in own.items():
        array = chunk.arrays[name]
        if role.by_slot and name.endswith(INDEX_ARRAYS):
            array = np.take_along_axis(position, array, axis=1)
        elif name.endswith("segment"):
            offset = segments_before[chunk.number][:, None]
            array = np.where(array > 0, array + offset, 0)
        source, target = from_to[role.by_slot]
        batch[name].ravel()[target] = array.ravel()[source]


def _sum_before(count: np.ndarray, row: np.ndarray) -> np.ndarray:
    """[P]: the sum of `count` over the pieces before each one in its row."""
    before = np.cumsum(count) - count
    return before - before[np.searchsorted(row, row)]
