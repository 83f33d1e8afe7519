"""Rows of a task's file with all columns, to be written again with other texts."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from research.contract.errors import UserError, os_reason
from research.data.read import formats
from research.data.read.compression import decompressed, file_suffixes
from research.data.read.formats import LineError, WholeRows


def read_whole_rows(file: Path, fields: Sequence[str]) -> WholeRows:
    """The rows of a file in UTF-8, which may be compressed.

    Args:
      fields: the columns that are texts, as in data.fields; (): those of its format.

    Raises:
      UserError: the file's format has no such rows; it cannot be read, or lacks these
        columns: says where.
    """
    suffix, legal = file_suffixes(file)[0], formats.whole_row_suffixes()
    if suffix not in legal:
        raise UserError(f"{file}: its name does not end in {', '.join(legal)}")
    if file.exists() and not file.is_file():
        raise UserError(f"{file} is a folder, a pipe or a device, not a file")
    try:
        with file.open("rb") as raw:
            return formats.by_suffix()[suffix].whole_rows(
                decompressed(file, raw), fields
            )
    except LineError as error:
        raise UserError(f"{file}:{error.args[0]}: {error.args[1]}") from error
    except (EOFError, OSError, zlib.error) as error:
        raise UserError(f"{file}: cannot be read ({os_reason(error)})") from error


def with_text(row: Any, field: Any, text: str) -> Any:
    """The row with another text in a column."""
    changed = row.copy()
    changed[field] = text
    return changed
