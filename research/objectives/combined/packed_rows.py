"""Any objective on packed rows, in which each document (a piece) is an example.

Each piece of a row is corrupted with its own key as if it were alone, and the arrays of
the pieces are concatenated. Segments stay distinct, so no piece attends to another;
positions restart.

Arrays are concatenated by their roles. The alternative, pieces as segments of one
example, would need code in every objective, whose budgets, spans and specials are meant
for a single text.
"""

# B batch, P pieces of a batch, R raw tokens of a row

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from research import objectives
from research.contract.batch import (
    PIECE,
    PIECE_SPECIALS,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    no_value,
)
from research.data import counter_rng
from research.data.rows import TextSpec
from research.networks import BoundNetwork
from research.objectives.combined import composite
from research.objectives.combined.joined_pieces import Chunk, JoinedPieces, find_keys
from research.objectives.combined.packed_layout import Layout, make_layout
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class PackedRows(composite.Composite):
    """An objective whose rows are packed.

    Packing is the same for all objectives: a piece of n tokens takes
    `batch.piece_columns(n)` of the `length` columns of a row, whatever its arrays need.
    """

    objective: objectives.Objective
    unit: str = "packed"  # of text, one of `rows.packings`

    @property
    def members(self) -> dict[str, objectives.Objective]:
        return {"": self.objective}

    @property
    def name(self) -> str:
        return self.objective.name

    @property
    def field_values(self) -> dict[str, Any]:
        return self.objective.field_values

    @property
    def family(self) -> str:
        return self.objective.family

    def for_evaluation(self) -> "PackedRows":
        return self.with_fields(objective=self.objective.for_evaluation())

    @property
    def min_length(self) -> int:
        shortest = self.objective.text_spec(self.objective.min_length).length
        return shortest + PIECE_SPECIALS

    def text_spec(self, length: int) -> TextSpec:
        arrays = self.objective.text_spec(length).arrays
        return TextSpec(self.unit, length - PIECE_SPECIALS, arrays=arrays)

    def num_sentinels(self, length: int) -> int:
        """As for the longest piece, since each piece begins with the first sentinel."""
        layout = make_layout(self.objective, length)
        lengths = layout.corrupted_length(np.arange(len(layout.own_length)))
        return self.objective.num_sentinels(int(lengths.max()))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Raises UserError: examples of the objective cannot be joined."""
        return make_layout(self.objective, length).specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Corrupts the pieces, whose first tokens have the flag PIECE, and joins them.

        Raises:
          UserError: as the objective's `corrupt`, or its examples cannot be joined.
        """
        layout = make_layout(self.objective, length)
        pieces = _split(example, key, vocab, separators=self.reads_separators)
        chunks = self._corrupt_pieces(pieces, example, vocab, layout)
        joined = JoinedPieces(chunks, pieces.row, layout)
        return joined.arrays(len(key), vocab.pad_id)

    def loss(
        self, net: BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        return self.objective.loss(net, batch, key)

    def _corrupt_pieces(
        self, pieces: "Pieces", example: Example, vocab: VocabInfo, layout: Layout
    ) -> list[Chunk]:
        """The arrays of all pieces; pieces of equal length are corrupted together.

        Pieces that happen to have more positions than at `own_length` are corrupted
        again at that length.
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
                fits = np.ones(len(number), bool)
                for group, most in layout.max_positions.items():
                    inputs = arrays[group + "segment"], arrays[group + "rank"]
                    num_keys = find_keys(*inputs).sum(axis=1)
                    fits &= num_keys <= most[pieces.size[number]]
                if not fits.all():
                    arrays = {name: array[fits] for name, array in arrays.items()}
                chunks.append(Chunk(number[fits], arrays))
                too_long.append(number[~fits])
            todo = np.concatenate(too_long)
            lengths[todo] = own_length[todo]
        return chunks


class Pieces(NamedTuple):
    """The pieces of a batch, row by row: [P] each."""

    row: np.ndarray
    begin: np.ndarray  # its first raw token in the row
    size: np.ndarray  # raw tokens
    key: np.ndarray  # uint64


def _split(
    example: Example, key: np.ndarray, vocab: VocabInfo, *, separators: bool
) -> Pieces:
    """The pieces of rows.

    Args:
      separators: keep a separator at the end of a piece.
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
    """The text of the pieces with these numbers [n], in `width` columns."""
    row, begin, size = pieces.row[number], pieces.begin[number], pieces.size[number]
    column = np.arange(width)
    inside = column < size[:, None]
    num_raw = example.token.shape[1]
    index = (row * num_raw + begin)[:, None] + column

    def take(array: np.ndarray, pad: int) -> np.ndarray:
        here = array.ravel().take(index, mode="clip")
        return np.where(inside, here, array.dtype.type(pad))

    return Example(
        token=take(example.token, vocab.pad_id),
        flags=take(example.flags, 0) & ~np.uint8(PIECE),
        length=size,
        label=np.full_like(size, -1),
        first_length=size,
        corpus=example.corpus[row],
        step=example.step[row],
        document=example.document[row],
        number=example.number[row],
        arrays={
            name: take(array, no_value(array.dtype))
            for name, array in example.arrays.items()
        },
    )
