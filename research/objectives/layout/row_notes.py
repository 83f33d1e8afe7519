"""What a row of a batch holds beside its tokens, for the reader of `show`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class RowNotes(NamedTuple):
    """Knowledge of one row; nothing by default."""

    lines: Mapping[str, Sequence[str]] = {}  # title -> lines, at least one
    order: Sequence[int] | None = None  # its positions as they are drawn; None: as
    # they are
    tree: Sequence[tuple[str, Sequence[str]]] = ()  # words and the branches of each,
    # which a page draws in place of the lines
