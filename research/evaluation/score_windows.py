"""Splits texts into windows of tokens, and rows into batches of one size."""

# n windows, L length of a row

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from research.contract.batch import EVALUATION_STEP, WORD, Example
from research.data.tokenize.token_offsets import token_offsets
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.noise.scoring import ScoreRows


class Window(NamedTuple):
    """Tokens of a text that are read together, and which of these are scored."""

    text: int
    token: np.ndarray  # [n] int32
    flags: np.ndarray  # [n] uint8
    scored: np.ndarray  # [n] bool
    draws: int = 0  # key of the draws, together with the number of the window
    number: int = 0  # index of the window in the text


def encode(
    vocabulary: Vocabulary, text: str, context: str, separator: str, suffix: str = ""
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens and flags of a text and what is around it, and which tokens are its own.

    separator: put between context, text and suffix if there is no white space.
    """
    begin = context + _between(context, text, separator)
    end = begin + text
    whole = end + _between(end, suffix, separator) + suffix
    token, starts = vocabulary.encode(whole)
    scored = np.full(len(token), bool(text.strip()))
    if begin or suffix:
        offsets = token_offsets(whole, vocabulary)
        scored &= (offsets.end > len(begin)) & (offsets.begin < len(end))
    return token, starts * np.uint8(WORD), scored


def _between(before: str, after: str, separator: str) -> str:
    """The separator, unless one of two texts is empty or white space is between."""
    spaced = before[-1:].isspace() or after[:1].isspace()
    return separator if before and after and not spaced else ""


def num_bytes(vocabulary: Vocabulary, text: str) -> int:
    """The number of UTF-8 bytes of a text as the vocabulary reads it.

    If white space is not kept, a run of it is one space, and white space at the ends of
    a text, such as a line end, does not count.
    """
    read = text if vocabulary.keep_whitespace else " ".join(text.split())
    return len(read.encode("utf-8", "replace"))


def make_windows(scored: np.ndarray, room: int) -> Iterator[tuple[int, int, int]]:
    """(begin, end, first token to score) of windows of at most `room` tokens.

    Each token is scored in one window. The first window begins with the text if its
    scored tokens fit; later ones have as much context as fits (lm-evaluation-harness,
    utils.py, get_rolling_token_windows with the largest context). What follows the
    scored tokens has half of the room that they leave, or what is left before them.
    """
    num_tokens, first = len(scored), int(scored.argmax())
    last = num_tokens - int(scored[::-1].argmax())
    while first < last:
        stop = min(first + room, last)
        spare = room - (stop - first)
        end = min(stop + max(spare // 2, spare - first), num_tokens)
        yield max(0, end - room), end, first
        first = stop


def raw_text(
    windows: Sequence[Window], pad_id: int, length: int
) -> tuple[Example, np.ndarray]:
    """The windows as raw text [n, L], and which tokens are scored.

    Random draws are keyed by the document of a window.
    """
    shape = len(windows), length
    token, flags = np.full(shape, pad_id, np.int32), np.zeros(shape, np.uint8)
    scored = np.zeros(shape, bool)
    for row, window in enumerate(windows):
        inside = slice(len(window.token))
        token[row, inside], flags[row, inside] = window.token, window.flags
        scored[row, inside] = window.scored
    size = np.array([len(window.token) for window in windows], np.int32)
    none = np.zeros_like(size)
    draws, number = (
        np.array([getattr(window, name) for window in windows], np.int64)
        for name in ("draws", "number")
    )
    example = Example(
        token,
        flags,
        size,
        label=none - 1,
        first_length=size,
        corpus=none,
        step=np.full(len(size), EVALUATION_STEP, np.int64),
        document=draws,
        number=number,
    )
    return example, scored


def row_batches(
    rows: Iterator[ScoreRows], size: int
) -> Iterator[tuple[ScoreRows, dict[str, np.ndarray]]]:
    """Rows, at most `size` at a time, and their batches, padded with empty rows."""
    left = None
    for more in rows:
        if left is not None:
            more = jax.tree.map(lambda *x: np.concatenate(x), left, more)
        while len(more.text) >= size:
            yield _batch(jax.tree.map(lambda x: x[:size], more), size)
            more = jax.tree.map(lambda x: x[size:], more)
        left = more
    if left is not None and len(left.text):
        yield _batch(left, size)


def _batch(rows: ScoreRows, size: int) -> tuple[ScoreRows, dict[str, np.ndarray]]:
    missing = size - len(rows.text)
    arrays = {
        name: np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))
        for name, array in rows.arrays.items()
    }
    return rows, arrays | {"example": np.zeros(size, np.int32)}
