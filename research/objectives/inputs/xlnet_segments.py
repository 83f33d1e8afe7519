"""XLNet's rows: text read either way, whole or cut into two segments, bos last."""

# B batch, L length, R raw tokens an example, S segments of a row

import numpy as np

from research.batch import SENTENCE, Example, VocabInfo
from research.data import counter_rng
from research.objectives.inputs import input_format
from research.objectives.inputs.input_format import Text

AHEAD = 4
"""Lengths of a row that are read beyond it, for segments from elsewhere."""

NUM_KINDS = 3
"""First segment and all before it, second, class token."""


def read(
    example: Example,
    key: np.ndarray,
    vocab: VocabInfo,
    length: int,
    *,
    backward: np.ndarray,
    parts: int = 0,
    far: float = 0.0,
) -> Text:
    """Rows of text, eos and bos; or of two segments, an eos after each, and bos.

    The text of the last of `parts` is cut before a sentence (if none starts there,
    anywhere), all cuts equally likely, in a first segment and a second one: what
    follows or, for a share of rows, as many tokens from elsewhere, from a sentence's
    start on if there is one. The released code (zihangdai/xlnet, data_utils.py) takes
    them from anywhere in the row's stream; here they are of the next AHEAD lengths of
    text. A row whose text is too short for either is not cut, or follows.

    Args:
      backward: [B] bool, rows that are read from the end of their text.
      parts: of a row that has two segments; 0: there is one.
      far: share of second segments that are from elsewhere.
    """
    num_near = np.minimum(example.length, length - (3 if parts else 2)).astype(np.int64)
    example, starts = turned(example, num_near, backward)
    if not parts:
        token, num_tokens = input_format.enclose(example, vocab, length, bos="last")
        flags = np.zeros(token.shape, np.uint8)
        flags[:, :-2] = example.flags[:, : length - 2]
        return Text(token, flags, np.zeros_like(token), num_tokens)
    begin, size = _two(example, starts, key, num_near, parts=parts, far=far)
    opens = (None, None)
    text = input_format.compose(example, begin, size, vocab, length - 1, opens=opens)
    wide, row = [(0, 0), (0, 1)], np.flatnonzero(text.length > 0)
    token = np.pad(text.token, wide, constant_values=vocab.pad_id)
    kind = np.pad(text.token_type, wide)
    token[row, text.length[row]] = vocab.bos_id
    kind[row, text.length[row]] = NUM_KINDS - 1
    num_tokens = text.length + (text.length > 0)
    return Text(token, np.pad(text.flags, wide), kind, num_tokens)


def turned(
    example: Example, num_near: np.ndarray, backward: np.ndarray
) -> tuple[Example, np.ndarray]:
    """The text in reading order, and where a sentence is read first [B, R].

    What is near ([B] raw tokens) and what is further on are each turned for themselves.
    """
    starts = (example.flags & SENTENCE) > 0
    if not backward.any():
        return example, starts
    place, near = np.arange(example.token.shape[1]), num_near[:, None]
    last = near + example.length[:, None] - 1
    order = np.where(place < near, near - 1 - place, last - place)
    turn = backward[:, None] & (place < example.length[:, None])
    order = np.where(turn, order, place)
    token, flags, starts = (
        np.take_along_axis(array, order, axis=1)
        for array in (example.token, example.flags, starts)
    )
    # Read backwards, a sentence begins where the one after it has just begun.
    starts = np.where(backward[:, None], np.roll(starts, 1, axis=1), starts)
    return example._replace(token=token, flags=flags), starts


def _two(
    example: Example, starts: np.ndarray, key: np.ndarray, num_near, *, parts, far
) -> tuple[np.ndarray, np.ndarray]:
    """begin, size [B, 2] of both segments; the first has what is before it, too."""
    place = np.arange(starts.shape[1])
    before = (num_near + 3) * (parts - 1) // parts
    inside = (place > before[:, None]) & (place < num_near[:, None])
    cuts = inside & starts
    cuts = np.where(cuts.any(axis=1, keepdims=True), cuts, inside)
    cut = np.argmax(counter_rng.choose_subset(key, "cut", cuts, 1), axis=1)
    cut = np.where(cut > 0, cut, num_near)

    size = num_near - cut
    draw = counter_rng.uniform(key, "far", 2)
    room = example.length - num_near - size + 1
    away = (draw[:, 0] < far) & (size > 0) & (room > 0)
    begin = num_near + (draw[:, 1] * np.maximum(room, 1)).astype(np.int64)
    # Back to the start of the sentence, unless it is the one that is near.
    there = starts & (place >= num_near[:, None]) & (place <= begin[:, None])
    start = place.size - 1 - np.argmax(there[:, ::-1], axis=1)
    begin = np.where(there.any(axis=1), start, begin)
    begin = np.stack([np.zeros_like(cut), np.where(away, begin, cut)], axis=1)
    return begin, np.stack([cut, size], axis=1)
