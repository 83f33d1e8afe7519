"""Raw examples from the token ids of a seqio task: texts, or inputs and targets."""

# n rows, W tokens of the longest text, R raw tokens an example, V vocabulary

from collections.abc import Sequence

import numpy as np

from research.contract.batch import (
    DOCUMENT,
    PARAGRAPH,
    PART,
    SENTENCE,
    WORD,
    Example,
    empty_examples,
)


def cut_texts(
    token: np.ndarray, room: int, eos_id: int | None = None
) -> tuple[np.ndarray, int]:
    """[n, room or fewer]: texts without their ends, and how many are too long.

    Args:
      token: [n, W], -1 beyond a text's end.
      room: the maximum of tokens that are kept.
      eos_id: left out if it ends a text; None: it is kept.
    """
    size = (token >= 0).sum(axis=1)
    row = np.arange(len(token))
    if eos_id is not None and token.shape[1]:
        size = size - ((size > 0) & (token[row, np.maximum(size - 1, 0)] == eos_id))
    kept = np.arange(min(room, token.shape[1])) < size[:, None]
    return np.where(kept, token[:, : kept.shape[1]], -1), int((size > room).sum())


def make_examples(
    texts: Sequence[np.ndarray], width: int, pad_id: int, starts_word: np.ndarray
) -> Example:
    """Examples of one text each, or of a first part and a second.

    Args:
      texts: the parts, each [n, W], -1 beyond its end; together at most R tokens.
      width: R.
      starts_word: [V] bool, the ids that start a word.
    """
    example = empty_examples(len(texts[0]), width, pad_id)
    sizes = np.stack([(text >= 0).sum(axis=1) for text in texts])
    position, end = np.arange(width), sizes.cumsum(axis=0)
    for number, text in enumerate(texts):
        begin = end[number] - sizes[number]
        own = (position >= begin[:, None]) & (position < end[number][:, None])
        token = text[text >= 0]
        example.token[own] = token
        example.flags[own] = WORD * starts_word[token]
        row = np.flatnonzero(sizes[number])
        first = WORD | (PART if number else SENTENCE | PARAGRAPH | DOCUMENT)
        example.flags[row, begin[row]] = first
    example.length[:], example.first_length[:] = end[-1], end[0]
    return example
