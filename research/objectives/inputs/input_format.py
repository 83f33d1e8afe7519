"""The arrays around tokens: who sees whom in the plain patterns, and scored places."""

# B batch, L length, K scored places, R raw tokens an example, P spans of a row

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from research.batch import WORD, Example, VocabInfo
from research.errors import UserError


class Text(NamedTuple):
    """Rows with their specials, as the network reads them before hiding."""

    token: np.ndarray  # [B, L] int32, pad beyond `length`
    flags: np.ndarray  # [B, L] uint8; WORD alone at specials
    token_type: np.ndarray  # [B, L] int32: which of a row's spans, with its specials
    length: np.ndarray  # [B] int64, specials included


def enclose(
    example: Example, vocab: VocabInfo, length: int, *, bos: str = "first"
) -> tuple[np.ndarray, np.ndarray]:
    """bos, raw tokens, eos; or raw tokens, eos, bos with `bos` "last" (XLNet).

    An empty row stays empty. Raw tokens past L - 2 are left out.

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
    """bos, raw tokens, eos; see `enclose`."""
    token, num_tokens = enclose(example, vocab, length)
    width = min(example.flags.shape[1], length - 2)
    flags = np.zeros(token.shape, np.uint8)
    flags[:, 1 : 1 + width] = example.flags[:, :width]
    flags[vocab.is_special[token]] = WORD
    return Text(token, flags, np.zeros_like(token), num_tokens)


def compose(
    example: Example,
    begin: np.ndarray,
    size: np.ndarray,
    vocab: VocabInfo,
    length: int,
    *,
    opens: Sequence[int | None],
) -> Text:
    """Spans of each example one after the other, each closed by eos.

    A span without tokens is left out, and its specials; a row without spans is empty.

    Args:
      begin, size: [B, P]: where spans stand among the raw tokens. With their specials
        they fit a row.
      opens: [P] the special that stands before a span; None: none.
    """
    place = np.arange(length)
    token = np.full((len(size), length), vocab.pad_id, np.int32)
    flags, kind = np.zeros(token.shape, np.uint8), np.zeros_like(token)
    end = np.zeros((len(size), 1), np.int64)
    for number, special in enumerate(opens):
        held = size[:, number, None] > 0
        first = end + (special is not None)
        last = first + size[:, number, None]
        inside = (place >= first) & (place < last) & held
        raw = (begin[:, number, None] + place - first)[inside]
        row = np.nonzero(inside)[0]
        token[inside], flags[inside] = example.token[row, raw], example.flags[row, raw]
        if special is not None:
            token[(place == end) & held] = special
        token[(place == last) & held] = vocab.eos_id
        kind[(place >= end) & (place <= last) & held] = number
        end = np.where(held, last + 1, end)
    flags[vocab.is_special[token]] = WORD
    return Text(token, flags, kind, end[:, 0])


def pair(
    example: Example, vocab: VocabInfo, length: int, swapped: np.ndarray | None = None
) -> Text:
    """bos, first span, eos, second span, eos; one span alone: bos, span, eos.

    swapped: [B] bool, whether the second span comes before the first.
    """
    num_raw = np.minimum(example.length, length - 3).astype(np.int64)
    first = np.where(
        example.first_length > 0, np.minimum(example.first_length, num_raw), num_raw
    )
    begin = np.stack([np.zeros_like(first), first], axis=1)
    size = np.stack([first, num_raw - first], axis=1)
    if swapped is not None:
        turn = (swapped & (first < num_raw))[:, None]
        begin = np.where(turn, begin[:, ::-1], begin)
        size = np.where(turn, size[:, ::-1], size)
    return compose(example, begin, size, vocab, length, opens=(vocab.bos_id, None))


def check_token_types(options: Any, needed: int) -> None:
    """Raises UserError: model.token_types is above 0, but fewer than an objective writes."""
    if 0 < options.token_types < needed:
        raise UserError(
            f"model.token_types is {options.token_types}, but the objective tells {needed} kinds "
            f"of places apart; it is {needed}, or 0 for a network that does not"
        )


def full(token: np.ndarray, length: np.ndarray, prefix: str = "") -> dict:
    """The six arrays of rows whose first `length` [B] tokens all see each other."""
    group = _plain(token, length)
    group |= {"rank": np.zeros_like(token), "reach": np.zeros_like(token)}
    return {prefix + name: array for name, array in group.items()}


def causal(token: np.ndarray, length: np.ndarray, prefix: str = "") -> dict:
    """The six arrays of rows whose tokens each see themselves and what is before."""
    group = _plain(token, length)
    group |= {name: group["position"].copy() for name in ("rank", "reach")}
    return {prefix + name: array for name, array in group.items()}


def _plain(token: np.ndarray, length: np.ndarray) -> dict:
    place = np.arange(token.shape[1], dtype=np.int32)
    return {
        "token": token,
        "position": np.tile(place, (len(token), 1)),
        "segment": (place < length[:, None]).astype(np.int32),
        "token_type": np.zeros_like(token),
    }


def slots(chosen: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The chosen places [B, L] in order: scored [B, K] int32, and which are used.

    Rows hold at most K = `count` chosen places; unused slots point at place 0. Both
    `x[chosen]` and `y[used]` run through the same places in the same order.
    """
    used = np.arange(count) < chosen.sum(axis=1)[:, None]
    scored = np.zeros(used.shape, np.int32)
    scored[used] = np.flatnonzero(chosen) % chosen.shape[1]
    return scored, used
