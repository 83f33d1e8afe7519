"""What a stream keeps of examples of tasks: flags of parts and answers, and tags."""

# T tokens, D documents of a batch

from collections.abc import Sequence

import numpy as np

from research.batch import ANSWER_END, ANSWER_START, PART
from research.data.corpora.corpus import Document
from research.data.tokenizers.token_offsets import (
    first_token_at,
    last_token_at,
    token_offsets,
)
from research.data.tokenizers.vocabulary import Vocabulary


def mark_parts(
    flags: np.ndarray,
    first: np.ndarray,
    batch: Sequence[Document],
    vocabulary: Vocabulary,
    label_numbers: dict[str, int],
) -> np.ndarray | None:
    """Adds the flags of parts and answers, and returns tags [T] int32, -1: none.

    The tag of a part is that of its first token. None: no part has a tag.

    Args:
      flags: [T] uint8, changed in place.
      first: [D], the token at which each document starts.
      label_numbers: label -> number, which receives new labels.
    """
    tags = None
    if any(document.tags for document in batch):
        tags = np.full(len(flags), -1, np.int32)
    for begin, document in zip(first.tolist(), batch, strict=True):
        if not (document.starts or document.tags or document.answer):
            continue
        offsets = token_offsets(document.text, vocabulary)
        starts = begin + first_token_at(offsets, np.array([0, *document.starts]))
        flags[starts[1:]] |= PART
        if document.answer:
            character, end = document.answer
            flags[begin + first_token_at(offsets, character)] |= ANSWER_START
            flags[begin + last_token_at(offsets, end - 1)] |= ANSWER_END
        if document.tags:
            tags[starts] = [label_number(label_numbers, tag) for tag in document.tags]
    return tags


def label_number(numbers: dict[str, int], label: str | None) -> int:
    """The number of a label; a new label gets the next; -1: no label."""
    return -1 if label is None else numbers.setdefault(label, len(numbers))
