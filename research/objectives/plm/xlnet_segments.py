"""XLNet's rows: text in either direction, in one or two segments, with bos last."""

# B batch, L length, R raw tokens an example, S segments of a row

import numpy as np

from research.contract.batch import SENTENCE, Example, VocabInfo
from research.data import counter_rng
from research.objectives.layout import input_format
from research.objectives.layout.input_format import Text

LOOKAHEAD = 4
"""Row lengths of text read after a row, for nonadjacent segments."""

NUM_TOKEN_TYPES = 3
"""Token types of the first segment and all before it, the second segment, and bos."""


def make_rows(
    example: Example,
    key: np.ndarray,
    vocab: VocabInfo,
    length: int,
    *,
    backward: np.ndarray,
    num_parts: int = 0,
    nonadjacent_rate: float = 0.0,
) -> Text:
    """Rows of text, eos and bos; or of two segments, an eos after each, and bos.

    For two segments, sentences are collected from the last of `num_parts` parts on
    until they fill the row, and are cut before a random one. The first segment ends at
    the cut. The second is the rest or, for a fraction of rows and if there is only one
    sentence, other sentences that fill the rest of the row. While there are too
    many tokens, the longer segment (the second if they are equal) loses its last token.
    The released code (zihangdai/xlnet, data_utils.py, _split_a_and_b) takes the other
    sentences from anywhere in the row's stream; here they come from the next LOOKAHEAD
    lengths of text. If that text is missing, a row has as many tokens as fit, is cut at
    any token if no sentence starts in it, and its second segment follows the first. The
    sentence that fills a backward row is cut off at the row's end, since the text
    before it is not read.

    Args:
      backward: [B] bool, rows that are read from end to start.
      num_parts: number of parts of a row with two segments; 0: rows have one segment.
      nonadjacent_rate: fraction of second segments that do not follow the first.
    """
    num_specials = 3 if num_parts else 2
    num_near = np.minimum(example.length, length - num_specials).astype(np.int64)
    example, starts = reverse_rows(example, num_near, backward)
    if not num_parts:
        token, num_tokens = input_format.add_special_tokens(
            example, vocab, length, bos="last"
        )
        flags = np.zeros(token.shape, np.uint8)
        flags[:, :-2] = example.flags[:, : length - 2]
        return Text(token, flags, np.zeros_like(token), num_tokens)
    begin, size = _two_segments(
        example,
        starts,
        key,
        num_near,
        backward,
        num_parts=num_parts,
        nonadjacent_rate=nonadjacent_rate,
    )
    prefixes = (None, None)
    text = input_format.concatenate_spans(
        example, begin, size, vocab, length - 1, prefixes=prefixes
    )
    one_more, row = [(0, 0), (0, 1)], np.flatnonzero(text.length > 0)
    token = np.pad(text.token, one_more, constant_values=vocab.pad_id)
    token_type = np.pad(text.token_type, one_more)
    token[row, text.length[row]] = vocab.bos_id
    token_type[row, text.length[row]] = NUM_TOKEN_TYPES - 1
    num_tokens = text.length + (text.length > 0)
    return Text(token, np.pad(text.flags, one_more), token_type, num_tokens)


def reverse_rows(
    example: Example, num_near: np.ndarray, backward: np.ndarray
) -> tuple[Example, np.ndarray]:
    """The text in reading order, and where a sentence starts in that order [B, R].

    Args:
      num_near: [B], number of raw tokens of the row itself; they and the tokens after
        them are reversed separately.
      backward: [B] bool, rows that are reversed.
    """
    starts = (example.flags & SENTENCE) > 0
    if not backward.any():
        return example, starts
    index, near = np.arange(example.token.shape[1]), num_near[:, None]
    last = near + example.length[:, None] - 1
    order = np.where(index < near, near - 1 - index, last - index)
    reverse = backward[:, None] & (index < example.length[:, None])
    order = np.where(reverse, order, index)
    token, flags, starts = (
        np.take_along_axis(array, order, axis=1)
        for array in (example.token, example.flags, starts)
    )
    # In backward order a sentence starts after the first token of the next sentence.
    starts = np.where(backward[:, None], np.roll(starts, 1, axis=1), starts)
    return example._replace(token=token, flags=flags), starts


def _two_segments(
    example: Example,
    starts: np.ndarray,
    key: np.ndarray,
    num_near: np.ndarray,
    backward: np.ndarray,
    *,
    num_parts: int,
    nonadjacent_rate: float,
) -> tuple[np.ndarray, np.ndarray]:
    """begin, size [B, S] of both segments; the first includes all text before it."""
    index, length = np.arange(starts.shape[1]), example.length.astype(np.int64)
    before = (num_near + 3) * (num_parts - 1) // num_parts
    room, far = num_near - before, length - num_near
    ahead = starts & (index < length[:, None])
    end = np.where(backward, num_near, _first_start(ahead, num_near, length))
    inside = (index > before[:, None]) & (index < num_near[:, None])
    cuts = inside & starts
    one_sentence = ~cuts.any(axis=1)
    cuts = np.where(one_sentence[:, None], inside, cuts)
    cut = np.argmax(counter_rng.choose_subset(key, "cut", cuts, 1), axis=1)
    cut = np.where(cut > 0, cut, num_near)
    cut = np.where(one_sentence & (far > 0), end, cut)

    size = np.maximum(room - (cut - before), 1)
    draw = counter_rng.uniform(key, "far", 2)
    nonadjacent = ((draw[:, 0] < nonadjacent_rate) & (cut < num_near)) | one_sentence
    nonadjacent &= far >= size
    begin = num_near + (draw[:, 1] * np.maximum(far - size + 1, 1)).astype(np.int64)
    second_end = np.where(nonadjacent, _first_start(ahead, begin + size, length), end)
    # Move back to the start of the sentence, unless that is in the row itself.
    earlier = ahead & (index >= num_near[:, None]) & (index <= begin[:, None])
    start = index.size - 1 - np.argmax(earlier[:, ::-1], axis=1)
    begin = np.where(earlier.any(axis=1), start, begin)
    begin = np.where(nonadjacent, begin, np.minimum(cut, end))

    first, second = cut - before, second_end - begin
    over = np.maximum(first + second - room, 0)
    uneven = np.minimum(over, abs(first - second))
    from_first = np.where(first > second, uneven, 0) + (over - uneven) // 2
    begin = np.stack([np.zeros_like(cut), begin], axis=1)
    size = np.stack([cut - from_first, second - (over - from_first)], axis=1)
    return begin, size


def _first_start(
    starts: np.ndarray, position: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """[B]: the first start at or after `position` [B]; `end` [B] if there is none."""
    after = starts & (np.arange(starts.shape[1]) >= position[:, None])
    return np.where(after.any(axis=1), after.argmax(axis=1), end)
