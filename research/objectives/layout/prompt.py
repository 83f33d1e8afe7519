"""Prompts: texts that a network continues, in the format of its objective's rows."""

# B batch, L length, M encoder length

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

APPENDED = ("nothing", "mask", "query")


class Prompt(NamedTuple):
    """What is read before the first new token; rows are padded at their ends.

    A new token continues its row: its position, rank and reach are one more than those
    of the token before it, and its INTERVAL_ARRAYS are the same, so that it attends to
    the same tokens and to all new ones. `appended` says which state predicts the next
    token: that of the last token, of a mask token appended at the next position
    (UniLM), or of a query there, to which no token attends (XLNet).
    """

    group: dict[str, Any]  # arrays [B, L] of a network input
    encoder: dict[str, Any] | None = None  # the six arrays [B, M] of an encoder, and
    # perhaps cross_segment (`seq2seq.encode`)
    token_type: int = 0  # token type of new tokens
    appended: str = "nothing"  # one of APPENDED
    end: Any = None  # [B] int32: the last position that a text may have; None: any
    block_size: int = 0  # if masks are filled: positions per block; blocks attend to
    # themselves and to earlier ones; 0: all attend to all


def in_languages(prompt: Prompt, read: int, written: int) -> Prompt:
    """The prompt with these token types for the encoder and the decoder."""
    assert prompt.encoder is not None
    encoder, group = (
        arrays | {"token_type": (language * arrays["segment"]).astype(np.int32)}
        for arrays, language in ((prompt.encoder, read), (prompt.group, written))
    )
    return prompt._replace(group=group, encoder=encoder, token_type=written)


def pad_group(group: Mapping[str, np.ndarray], width: int) -> dict[str, np.ndarray]:
    """A group with more padding at the ends of its rows, [B, width]."""

    def padded(name: str, array: np.ndarray) -> np.ndarray:
        more = [(0, 0), (0, width - array.shape[1]), *[(0, 0)] * (array.ndim - 2)]
        mode: Literal["constant", "edge"] = "constant" if name == "segment" else "edge"
        return np.pad(array, more, mode)

    return {name: padded(name, array) for name, array in group.items()}


def pad_rows(
    rows: Sequence[Sequence[int]], pad_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Token ids [B, L] of rows, with L the longest, and their lengths [B]."""
    length = np.array([len(row) for row in rows], np.int64)
    token = np.full((len(rows), length.max(initial=0)), pad_id, np.int32)
    for array, row in zip(token, rows, strict=True):
        array[: len(row)] = row
    return token, length
