"""Rows of tables whose columns are the parts and the label of an example."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from research.contract.errors import unknown
from research.data.documents import join_parts
from research.data.read.formats import FileOptions, LineError, Parsed, SkippedRows
from research.data.read.formats.parsing.values import label_of, text_of


def with_header(
    rows: Iterable[tuple[int, Sequence[str]]], options: FileOptions
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Rows keyed by column names, or by numbers if `options` has these instead.

    Named columns need a header; without one, columns are numbered.
    """
    names = [name for name in (*options.fields, options.label) if name]
    numbered = is_numbered(options)
    header: Sequence[str] = ()
    for number, row in rows:
        if not header:
            header = row
            if not numbered:
                check_names(number, row, options)
                _check_header(number, row, options)
                continue
        if len(row) != len(header):
            raise LineError(number, f"has {len(row)} columns, not {len(header)}")
        if not numbered:
            yield number, dict(zip(header, row, strict=True))
            continue
        for name in names:
            if not -len(row) <= int(name) < len(row):
                legal = f"its {len(row)} columns are 0 to {len(row) - 1}"
                key = key_of(name, options)
                raise LineError(number, f"{key}: no column {name}: {legal}")
        yield number, {name: row[int(name)] for name in names}


def check_names(number: int, names: Sequence[str], options: FileOptions) -> None:
    """Checks that the columns that are read occur only once among the column names.

    Raises:
      LineError: one occurs again.
    """
    for name in (*options.fields, options.label):
        if name and names.count(name) > 1:
            raise LineError(number, f"several columns are named {name!r}")


def _check_header(number: int, row: Sequence[str], options: FileOptions) -> None:
    """Checks that the columns that are read are among the column names.

    Raises:
      LineError: one is not, and it is not an optional label.
    """
    for name in (*options.fields, options.label):
        is_optional = name == options.label and options.optional
        if name and name not in row and not is_optional:
            raise LineError(
                number,
                f"{no_column(name, dict.fromkeys(row), options)} (a file without a "
                f"header has columns by number, 0 to {len(row) - 1})",
            )


def row_documents(rows: Iterable[tuple[int, Any]], options: FileOptions) -> Parsed:
    """The documents of rows with named columns; each item of a list is a part.

    Raises:
      LineError: a column or key is missing, is not a text or label, or is a list
        although another part follows it.
    """
    blank, hidden, unlabelled, labels = [], [], [], _Labels()
    for number, row in rows:
        if not isinstance(row, Mapping):
            raise LineError(number, f"a line must be a JSON object, not {row!r:.40}")
        for name in (*options.fields, options.label):
            if not name or name in row:
                continue
            if name != options.label or not options.optional:
                raise LineError(number, no_column(name, row, options))
            hidden.append(number)
        parts = _parts(number, row, options.fields)
        if not all(part.strip() for part in parts):
            blank.append(number)
            continue
        label = row_label(number, row.get(options.label), options)
        labels.add(number, label)
        if label is None and options.label in row:
            unlabelled.append(number)
        yield join_parts(parts, "\n")._replace(label=label, id=f":{number}")
    if blank:
        yield SkippedRows(
            len(blank), blank[0], "left out, since a field of data.fields is blank"
        )
    if hidden:
        reason = f"no column {options.label!r}, so no label"
        yield SkippedRows(len(hidden), hidden[0], reason)
    if unlabelled:
        reason = f"no label in {options.label!r}"
        yield SkippedRows(len(unlabelled), unlabelled[0], reason)
    if is_numbered(options) and labels.first_is_alone():
        yield SkippedRows(
            1,
            labels.first_row,
            f"label {labels.first!r} is on no other row; if these are names of "
            "columns, data.fields and data.label are such names, and not numbers",
        )


class _Labels:
    """The labels of the rows of a file, to find a header that is read as a row."""

    def __init__(self) -> None:
        self.first, self.first_row = None, 0
        self._others, self._num_others = set(), 0

    def add(self, number: int, label: str | None) -> None:
        if not self.first_row:
            self.first, self.first_row = label, number
        else:
            self._others.add(label)
            self._num_others += 1

    def first_is_alone(self) -> bool:
        """Whether no other row has the first row's label, while some share theirs."""
        is_name = self.first is not None and not self.first[:2].strip("-.").isdigit()
        return (
            is_name
            and self.first not in self._others
            and len(self._others) < self._num_others
        )


def _parts(number: int, row: Mapping, fields: Sequence[str]) -> list[str]:
    """The parts of a row; only the last field may be a list, whose items are parts.

    Raises:
      LineError: see `row_documents`.
    """
    parts = []
    for name in fields:
        value = row[name]
        if isinstance(value, list) and name != fields[-1]:
            raise LineError(
                number,
                f"{name!r} is a list, whose items are separate parts; only the last of "
                f"data.fields={','.join(fields)} may be a list",
            )
        try:
            parts += map(text_of, value if isinstance(value, list) else [value])
        except ValueError as error:
            raise LineError(number, f"{name!r} of data.fields: {error}") from error
    return parts


def row_label(number: int, value: Any, options: FileOptions) -> str | None:
    """The label of a row, see `label_of`.

    Raises:
      LineError: it is not a label.
    """
    try:
        return label_of(value)
    except ValueError as error:
        name = f"{options.label!r} of data.label" if options.label else "label"
        raise LineError(number, f"{name}: {error}") from error


def is_numbered(options: FileOptions) -> bool:
    """Whether columns are named by numbers, so that a file has no header."""
    names = [name for name in (*options.fields, options.label) if name]
    return all(name.lstrip("-").isdigit() for name in names)


def key_of(name: str, options: FileOptions) -> str:
    """The config key that names a column."""
    return "data.label" if name == options.label else "data.fields"


def no_column(name: str, row: Mapping, options: FileOptions) -> str:
    """What is wrong with a row that lacks a column."""
    return str(unknown(f"column of {key_of(name, options)}", name, row))
