"""The special tokens around a text that a network reads alone."""

from typing import NamedTuple


class Specials(NamedTuple):
    """Those of the rows of an objective's training.

    The class token is the first of `before`, or else the last of `after`; in a causal
    network it is the last token, the only one that sees the whole text.
    """

    before: tuple[int, ...] = ()  # ids before the text
    after: tuple[int, ...] = ()  # ids after it
    token_type: int = 0  # of all tokens
    last_type: int = 0  # of the last one, where it is above `token_type` (XLNet)
