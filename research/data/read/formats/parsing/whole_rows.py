"""Rows of a task's file with all columns, to be written again with other texts."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from research.contract.errors import UserError, os_reason, unknown
from research.data.read.compression import decompressed, file_suffixes
from research.data.read.formats import FileOptions, LineError
from research.data.read.formats.parsing.lines import (
    decode,
    json_rows,
    line_feeds,
    replace_surrogates,
)
from research.data.read.formats.parsing.rows import check_names, is_numbered

SUFFIXES = (".tsv", ".jsonl")


class WholeRows(NamedTuple):
    """The rows of a file.

    A row is a list of columns; that of a JSON line is a dict.
    """

    header: str  # the line before the rows, with its end; "": there is none
    rows: list[Any]
    fields: list[Any]  # the columns that are texts: indices or keys


def read_whole_rows(file: Path, fields: Sequence[str]) -> WholeRows:
    """The rows of a .tsv or .jsonl in UTF-8, which may be compressed.

    Args:
      fields: the columns that are texts, as in data.fields; (): `text`, in a .jsonl.

    Raises:
      UserError: the file has another suffix, cannot be read, or lacks these columns;
        says where.
    """
    suffix = file_suffixes(file)[0]
    if suffix not in SUFFIXES:
        raise UserError(f"{file}: its name does not end in {', '.join(SUFFIXES)}")
    if suffix == ".tsv" and not fields:
        raise UserError(f"{file} has columns; name those of text by --fields")
    if file.exists() and not file.is_file():
        raise UserError(f"{file} is a folder, a pipe or a device, not a file")
    try:
        with file.open("rb") as raw:
            content = decompressed(file, raw)
            if suffix == ".jsonl":
                return _read_json(content, list(fields) or ["text"])
            numbered = enumerate(line_feeds(content), 1)
            texts = [decode(line, number).rstrip("\r\n") for number, line in numbered]
            return _columns(texts, fields)
    except LineError as error:
        raise UserError(f"{file}:{error.args[0]}: {error.args[1]}") from error
    except (EOFError, OSError, zlib.error) as error:
        raise UserError(f"{file}: cannot be read ({os_reason(error)})") from error


def _read_json(content: Any, fields: list[str]) -> WholeRows:
    rows = []
    for number, row in json_rows(content, fields):
        if not isinstance(row, dict):
            raise LineError(number, f"a line must be a JSON object, not {row!r:.40}")
        for name in fields:
            if name not in row:
                raise LineError(number, str(unknown("key", name, row)))
            if not isinstance(row[name], str):
                raise LineError(number, f"{name!r} must be text, not {row[name]!r:.40}")
            row[name] = replace_surrogates(row[name])
        rows.append(row)
    return WholeRows("", rows, fields)


def _columns(texts: list[str], fields: Sequence[str]) -> WholeRows:
    options = FileOptions(fields=tuple(fields))
    numbered = [(n, text.split("\t")) for n, text in enumerate(texts, 1) if text]
    if not numbered:
        return WholeRows("", [], [])
    first, names = numbered[0]
    if is_numbered(options):
        header, indices = "", [int(name) for name in fields]
        for name, index in zip(fields, indices, strict=True):
            if not -len(names) <= index < len(names):
                legal = f"its {len(names)} columns are 0 to {len(names) - 1}"
                raise LineError(first, f"--fields: no column {name}: {legal}")
    else:
        check_names(first, names, options)
        if missing := [name for name in fields if name not in names]:
            raise LineError(first, str(unknown("column", missing[0], names)))
        header, indices = "\t".join(names) + "\n", [names.index(f) for f in fields]
        numbered = numbered[1:]
    for number, row in numbered:
        if len(row) != len(names):
            raise LineError(number, f"has {len(row)} columns, not {len(names)}")
    return WholeRows(header, [row for _, row in numbered], indices)


def with_text(row: Any, field: Any, text: str) -> Any:
    """The row with another text in a column."""
    changed = row.copy()
    changed[field] = text
    return changed


def line_of(row: Any) -> str:
    """The row as a line of its file, with its end."""
    if isinstance(row, dict):
        return replace_surrogates(json.dumps(row, ensure_ascii=False)) + "\n"
    return "\t".join(row) + "\n"
