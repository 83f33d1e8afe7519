"""The batch: plain integer arrays that say what is read, who sees whom, what is scored.

Query q sees key k iff segment[q] == segment[k] > 0 and rank[k] <= reach[q].
"""

# B batch, L length, K scored places, R raw tokens an example, V vocabulary

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

NEVER = 2**30
"""The rank of a key that no query reaches."""

WORD, SENTENCE, PARAGRAPH, DOCUMENT = 1, 2, 4, 8
"""Bits of a token's flag byte: it starts a word, sentence, paragraph, document."""

NEXT, OTHER_DOCUMENT, NONADJACENT = 0, 1, 2
"""Labels of pairs: the second span follows the first; is of another document; is of
the same one, but not adjacent."""

BACKWARD = 1
"""Label of rows that read a stream from its end on; their tokens are in text order."""

INPUT_ARRAYS = ("token", "position", "segment", "token_type", "rank", "reach")
SCORED_ARRAYS = ("scored", "target", "weight")


class ArraySpec(NamedTuple):
    """Shape of one example's array (the batch adds a leading B) and its type."""

    shape: tuple[int, ...]
    dtype: type = np.int32


EVALUATION_STEP = 2**31 - 1
"""The step of rows that are evaluated: past the end of every schedule."""


class TextSpec(NamedTuple):
    """What an objective takes from the text for one example."""

    unit: str  # one of `data.index.UNITS`: stream, document, pair, ...
    length: int  # raw tokens at most
    other_document_rate: float = (
        0.0  # of pairs: share whose second span is of another document
    )
    nonadjacent_rate: float = (
        0.0  # of pairs: share of the same document, but not adjacent
    )
    short_rate: float = 0.0  # of pairs: share that is made shorter, by a uniform length
    contiguous: bool = (
        False  # row r of a step goes on where row r of the last one ended
    )
    stride: int = 0  # of streams: tokens from one example to the next; 0: data.stride
    reverse: bool = False  # of streams: half of the rows read theirs from its end on


class Lexicon(NamedTuple):
    """Words, phrases or entities that objectives know as units, in pieces."""

    token: np.ndarray  # [E, W] int32, -1 beyond an entry's end
    size: np.ndarray  # [E] int32, pieces of each entry
    entry_type: np.ndarray  # [E] int32, index into `type_names`
    type_names: tuple[str, ...]


class VocabInfo(NamedTuple):
    """The ids an objective may write, and what the vocabulary and the data hold."""

    size: int  # V, specials included, before padding for the mesh
    pad_id: int
    bos_id: int  # also [CLS]
    eos_id: int  # also [SEP]
    mask_id: int
    unk_id: int
    sentinel_ids: tuple[int, ...]  # in the order in which spans use them
    is_special: np.ndarray  # [V] bool: pad, bos, eos, mask, sentinels (never hidden)
    ordinary_ids: np.ndarray  # [V'] int32: ids that a random replacement may draw
    labels: tuple[str, ...] = ()  # names of the documents' labels
    lexicon: Lexicon | None = None  # of data.lexicon
    lowercase_ids: np.ndarray | None = (
        None  # [V] int32: a piece in lower case; else itself
    )


class Example(NamedTuple):
    """Raw text on the host, before hiding. Rows may be shorter than R, or empty."""

    token: np.ndarray  # [B, R] int32, pad beyond `length`
    flags: np.ndarray  # [B, R] uint8
    length: np.ndarray  # [B] int32
    label: (
        np.ndarray
    )  # [B] int32, -1: none; of pairs NEXT, OTHER_DOCUMENT or NONADJACENT; of rows that
    # read a stream from its end on BACKWARD
    first_length: (
        np.ndarray
    )  # [B] int32, tokens of the first of two spans; else `length`
    corpus: np.ndarray  # [B] int32, the corpus: its place among those of a mixture
    step: np.ndarray  # [B] int64, the training step; EVALUATION_STEP in an evaluation
    document: np.ndarray  # [B] int64, the number, over all corpora, of the one that the
    # text begins in; -1: no text


def input_specs(length: int, prefix: str = "") -> dict[str, ArraySpec]:
    """Specs of the six arrays that a network reads, each of shape [length]."""
    return {prefix + name: ArraySpec((length,)) for name in INPUT_ARRAYS}


def scored_specs(count: int, *, gathered: bool = True) -> dict[str, ArraySpec]:
    """Specs of the scored places; without `gathered` all places are scored in turn."""
    specs = {"target": ArraySpec((count,)), "weight": ArraySpec((count,), np.float32)}
    return ({"scored": ArraySpec((count,))} if gathered else {}) | specs


def input_group(batch: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The group of arrays of one network input: `prefix` is "", "encoder_", ..."""
    return {name: batch[prefix + name] for name in INPUT_ARRAYS}


def attention_mask(group: Mapping[str, Any]):
    """[B, L, L] bool: whether query q (axis 1) sees key k (axis 2)."""
    segment, rank, reach = group["segment"], group["rank"], group["reach"]
    same = segment[:, :, None] == segment[:, None, :]
    return same & (segment[:, None, :] > 0) & (rank[:, None, :] <= reach[:, :, None])
