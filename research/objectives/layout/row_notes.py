"""What a row of a batch holds in addition to its tokens, for the reader of `show`."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class RowNotes(NamedTuple):
    """Knowledge of one row; nothing by default."""

    lines: Mapping[str, Sequence[str]] = {}  # title -> lines, at least one
    order: Sequence[int] | None = None  # its positions in the order in which they are
    # drawn; None: as in the row
    tree: Sequence[tuple[str, Sequence[str]]] = ()  # words and the branches of each,
    # which a page draws instead of the lines
