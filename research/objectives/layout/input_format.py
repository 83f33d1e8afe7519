"""Network inputs from raw tokens: special tokens, segments, attention, positions."""

# B batch, L length, K scored positions, R raw tokens an example, P spans of a row

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from research.contract.batch import WORD, Example, VocabInfo

SINGLE_FORMATS = {
    "stream": "stream",
    "full_sentences": "sentences",
    "doc_sentences": "passage",
}
"""Format of one segment -> its unit of text (Liu et al. 2019, 4.2)."""


class Text(NamedTuple):
    """Rows with special tokens, before anything is masked."""

    token: np.ndarray  # [B, L] int32, pad beyond `length`
    flags: np.ndarray  # [B, L] uint8; specials have only the flag WORD
    token_type: np.ndarray  # [B, L] int32: index of the span, also of its specials
    length: np.ndarray  # [B] int64, including specials


def add_special_tokens(
    example: Example, vocab: VocabInfo, length: int, *, bos: str = "first"
) -> tuple[np.ndarray, np.ndarray]:
    """bos, raw tokens, eos; or raw tokens, eos, bos with `bos` "last" (XLNet).

    An empty row stays empty. Raw tokens beyond L - 2 are left out.

    Returns:
      token [B, L] int32, and the number of tokens of each row [B].
    """
    num_raw = np.minimum(example.length, length - 2)
    width = min(example.token.shape[1], length - 2)
    row, first = np.arange(len(num_raw)), int(bos == "first")
    token = np.full((len(num_raw), length), vocab.pad_id, np.int32)
    token[:, first : first + width] = example.token[:, :width]
    token[row, first + num_raw] = vocab.eos_id
    token[row, np.where(first, 0, num_raw + 1)] = vocab.bos_id
    token[num_raw == 0] = vocab.pad_id
    return token, np.where(num_raw > 0, num_raw + 2, 0)


def single(example: Example, vocab: VocabInfo, length: int) -> Text:
    """bos, raw tokens, eos; see `add_special_tokens`."""
    token, num_tokens = add_special_tokens(example, vocab, length)
    width = min(example.flags.shape[1], length - 2)
    flags = np.zeros(token.shape, np.uint8)
    flags[:, 1 : 1 + width] = example.flags[:, :width]
    flags[vocab.is_special[token]] = WORD
    return Text(token, flags, np.zeros_like(token), num_tokens)


def pair(
    example: Example, vocab: VocabInfo, length: int, swapped: np.ndarray | None = None
) -> Text:
    """bos, first span, eos, second span, eos; for a single span bos, span, eos.

    Args:
      swapped: [B] bool, whether the second span comes before the first.
    """
    one = (example.first_length == 0) | (example.first_length >= example.length)
    num_raw = np.minimum(example.length, length - 3 + one).astype(np.int64)
    first = np.where(one, num_raw, np.minimum(example.first_length, num_raw))
    begin = np.stack([np.zeros_like(first), first], axis=1)
    size = np.stack([first, num_raw - first], axis=1)
    if swapped is not None:
        swap = (swapped & (first < num_raw))[:, None]
        begin = np.where(swap, begin[:, ::-1], begin)
        size = np.where(swap, size[:, ::-1], size)
    prefixes = (vocab.bos_id, None)
    return concatenate_spans(example, begin, size, vocab, length, prefixes=prefixes)


def concatenate_spans(
    example: Example,
    begin: np.ndarray,
    size: np.ndarray,
    vocab: VocabInfo,
    length: int,
    *,
    prefixes: Sequence[int | None],
    ends: bool = True,
) -> Text:
    """The spans of each example concatenated, each followed by eos.

    An empty span is left out with its specials; a row without spans is empty.

    Args:
      begin, size: [B, P], the spans among the raw tokens. With their specials they must
        fit in a row.
      prefixes: [P], the special before each span; None: no specials.
      ends: whether eos follows each span.
    """
    position, row = np.arange(length), np.arange(len(size))
    num_raw = example.token.shape[1]
    source = np.zeros((len(size), length), np.int64)
    inside = np.zeros(source.shape, bool)
    token_type = np.zeros(source.shape, np.int32)
    specials, end = [], np.zeros(len(size), np.int64)
    for number, special in enumerate(prefixes):
        exists = size[:, number] > 0
        first = end + (special is not None)
        last = first + size[:, number]
        here = (position >= first[:, None]) & (position < last[:, None])
        inside |= here
        shift = row * num_raw + begin[:, number] - first
        np.copyto(source, position + shift[:, None], where=here)
        if special is not None:
            specials.append((row[exists], end[exists], special))
        if ends:
            specials.append((row[exists], last[exists], vocab.eos_id))
        after = last + ends
        if number:
            with_specials = (position >= end[:, None]) & (position < after[:, None])
            token_type[with_specials & exists[:, None]] = number
        end = np.where(exists, after, end)
    token = np.where(inside, example.token.take(source), np.int32(vocab.pad_id))
    flags = example.flags.take(source) * inside
    for rows, columns, special in specials:
        token[rows, columns] = special
    flags[vocab.is_special[token]] = WORD
    return Text(token, flags, token_type, end)


def full_input(
    token: np.ndarray, length: np.ndarray, prefix: str = ""
) -> dict[str, np.ndarray]:
    """The six input arrays; a row's first `length` [B] tokens attend to each other."""
    arrays = _without_attention(token, length)
    arrays |= {"rank": np.zeros_like(token), "reach": np.zeros_like(token)}
    return {prefix + name: array for name, array in arrays.items()}


def causal_input(
    token: np.ndarray, length: np.ndarray, prefix: str = ""
) -> dict[str, np.ndarray]:
    """The six input arrays; tokens attend to themselves and to earlier ones."""
    arrays = _without_attention(token, length)
    arrays |= {name: arrays["position"].copy() for name in ("rank", "reach")}
    return {prefix + name: array for name, array in arrays.items()}


def shifted_input(
    target: np.ndarray, start: np.ndarray, length: np.ndarray, vocab: VocabInfo
) -> dict[str, np.ndarray]:
    """The input arrays except rank and reach; a position reads the previous token.

    Args:
      target: [B, L] int32, the tokens of a row.
      start: [B, L] bool, first positions of segments, which read bos.
      length: [B], the number of tokens of each row.
    """
    index = np.arange(target.shape[1], dtype=np.int32)
    valid = index < length[:, None]
    token = np.where(start, vocab.bos_id, np.roll(target, 1, axis=1))
    first = np.maximum.accumulate(np.where(start, index, 0), axis=1)
    position = index - first
    return {
        "token": np.where(valid, token, vocab.pad_id).astype(np.int32),
        "position": position,
        "segment": np.cumsum(start, axis=1, dtype=np.int32) * valid,
        "token_type": np.zeros_like(position),
    }


def _without_attention(token: np.ndarray, length: np.ndarray) -> dict[str, np.ndarray]:
    """The input arrays except rank and reach."""
    position = np.arange(token.shape[1], dtype=np.int32)
    return {
        "token": token,
        "position": np.tile(position, (len(token), 1)),
        "segment": (position < length[:, None]).astype(np.int32),
        "token_type": np.zeros_like(token),
    }


def scored_positions(chosen: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The chosen positions [B, L] as scored [B, K] int32 and used [B, K] bool.

    Rows have at most K = `count` chosen positions; unused slots point at position 0.
    `x[chosen]` and `y[used]` list the same positions in the same order.
    """
    used = np.arange(count) < chosen.sum(axis=1)[:, None]
    scored = np.zeros(used.shape, np.int32)
    scored[used] = np.flatnonzero(chosen) % chosen.shape[1]
    return scored, used
