"""Raw examples: spans of a token stream, before the objective corrupts them."""

from typing import NamedTuple

import numpy as np

from research.batch import (
    EVALUATION_STEP,
    NEXT,
    NONADJACENT,
    OTHER_DOCUMENT,
    Example,
    VocabInfo,
)
from research.data import counter_rng
from research.data.store.example_index import Index
from research.data.store.stream import Stream

# n rows

EVALUATION_SEED = 0
"""Seed of the corruption in evaluations: the same in every run."""

ROWS_PER_CALL = 256
"""Rows that one call makes where they are read in order: about where the overhead of
NumPy's calls is smallest."""


class IndexedCorpus(NamedTuple):
    """One corpus of a mixture, or the only one."""

    stream: Stream
    index: Index


def example_ids(number: np.ndarray) -> np.ndarray:
    """[n] int32: the batch's "example" array, the low 31 bits of `number` [n] int64."""
    return (number & np.iinfo(np.int32).max).astype(np.int32)


def empty_examples(num: int, width: int, pad_id: int) -> Example:
    """Rows without text, to be filled or to be scored with weight 0."""
    return Example(
        token=np.full((num, width), pad_id, np.int32),
        flags=np.zeros((num, width), np.uint8),
        length=np.zeros(num, np.int32),
        label=np.full(num, -1, np.int32),
        first_length=np.zeros(num, np.int32),
        corpus=np.zeros(num, np.int32),
        step=np.full(num, EVALUATION_STEP, np.int64),
        document=np.full(num, -1, np.int64),
    )


def label_table(corpus: IndexedCorpus, vocab: VocabInfo) -> np.ndarray:
    """From an index's label to an example's; the last entry is for -1, no label.

    Labels of pairs stay; labels of documents become indices into `vocab.labels`.
    """
    if corpus.index.second is not None:
        return np.array([NEXT, OTHER_DOCUMENT, NONADJACENT], np.int32)
    names = corpus.stream.label_names
    return np.array([*map(vocab.labels.index, names), -1], np.int32)


def read_spans(
    corpus: IndexedCorpus,
    row: np.ndarray,
    width: int,
    pad_id: int,
    key: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Arrays of an Example for rows [n] of the index; a pair's spans are joined.

    Args:
      key: [n] uint64, by which `TextSpec.random_start` draws where rows start; None:
        they start where the index says.
    """
    stream, index = corpus
    start, first_length = index.start[row], index.length[row]
    if key is not None:
        start, first_length = _draw_starts(corpus, start, width, key)
    length = first_length
    token, flags = stream.gather(start, length, width, pad_id)
    document = np.searchsorted(stream.document_offsets, start, side="right") - 1
    if index.second is not None:
        second_length = index.second_length[row]
        length = first_length + second_length
        second = stream.gather(index.second[row], second_length, width, pad_id)
        offset = np.arange(width) - first_length[:, None]
        token, flags = (
            np.where(offset < 0, a, np.take_along_axis(b, np.maximum(offset, 0), 1))
            for a, b in zip((token, flags), second, strict=True)
        )
    return {
        "token": token,
        "flags": flags,
        "length": length,
        "first_length": first_length,
        "document": document,
    }


def _draw_starts(
    corpus: IndexedCorpus, start: np.ndarray, width: int, key: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Starts [n] moved by up to a stride, and lengths [n] of the rows from there.

    All tokens of the stride are equally likely; only at the end of a shard a row starts
    early enough to have `width` tokens, or where it was.
    """
    shard = corpus.stream.shard_offsets
    end = shard[np.searchsorted(shard, start, side="right")]
    offset = counter_rng.uniform(key, "random start", 1)[:, 0] * corpus.index.stride
    latest = np.maximum(start, end - width)
    start = np.minimum(start + offset.astype(np.int64), latest)
    return start, np.minimum(width, end - start).astype(np.int32)
