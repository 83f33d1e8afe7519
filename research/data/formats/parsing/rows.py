"""Rows of tables whose columns are the parts and the label of an example."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from research.data.documents import LABEL_SEPARATOR, join_parts
from research.data.formats import FileOptions, LineError, Parsed, SkippedRows
from research.data.formats.parsing.lines import replace_surrogates
from research.errors import unknown


def with_header(
    rows: Iterable[tuple[int, Sequence[str]]], options: FileOptions
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Rows by the names of their columns, or by the numbers that `options` has instead.

    Columns that are named have a header; without one they are numbered.
    """
    names = [name for name in (*options.fields, options.label) if name]
    numbered = all(name.lstrip("-").isdigit() for name in names)
    header: Sequence[str] = ()
    for number, row in rows:
        if not header:
            header = row
            if not numbered:
                if twice := [name for name in names if row.count(name) > 1]:
                    raise LineError(number, f"several columns are named {twice[0]!r}")
                continue
        if len(row) != len(header):
            raise LineError(number, f"has {len(row)} columns, not {len(header)}")
        if not numbered:
            yield number, dict(zip(header, row, strict=True))
            continue
        try:
            yield number, {name: row[int(name)] for name in names}
        except IndexError:
            legal = f"its {len(row)} columns are 0 to {len(row) - 1}"
            raise LineError(number, f"no column {', '.join(names)}: {legal}") from None


def row_documents(rows: Iterable[tuple[int, Any]], options: FileOptions) -> Parsed:
    """The documents of rows that have names; of a list each item is a part.

    Raises:
      LineError: a column or key is missing, or is no text.
    """
    blank, hidden = [], []
    for number, row in rows:
        if not isinstance(row, Mapping):
            raise LineError(number, f"a line is a JSON object, not {row!r:.40}")
        for name in (*options.fields, options.label):
            if not name or name in row:
                continue
            if name != options.label or not options.optional:
                raise LineError(number, no_column(name, row))
            hidden.append(number)
        parts: list[str] = []
        for name in options.fields:
            value = row[name]
            parts += value if isinstance(value, list) else [value]
        if wrong := [part for part in parts if not isinstance(part, str)]:
            raise LineError(number, f"{wrong[0]!r:.40} is no text of data.fields")
        parts = [replace_surrogates(part) for part in parts]
        if not all(part.strip() for part in parts):
            blank.append(number)
            continue
        label = label_of(row.get(options.label), number)
        yield join_parts(parts, "\n")._replace(label=label, id=f":{number}")
    if blank:
        yield SkippedRows(len(blank), blank[0], "a field of data.fields is blank")
    if hidden:
        reason = f"have no column {options.label!r}, so no label"
        yield SkippedRows(len(hidden), hidden[0], reason)


def no_column(name: str, row: Mapping) -> str:
    """What is wrong with a row that lacks a column."""
    return str(unknown("column of data.fields or data.label", name, row))


def label_of(value: Any, number: int) -> str | None:
    """A label as text; None if there is none."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, Mapping | list):
            raise LineError(number, f"{value!r:.40} is no label: text or a number")
    if isinstance(value, list):
        return LABEL_SEPARATOR.join(sorted(map(str, value)))
    return None if value is None or not str(value).strip() else str(value).strip()
