"""Columns between tabs; quotes have no meaning (as in GLUE)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from research.contract.errors import unknown
from research.data.documents import Document
from research.data.read.formats import (
    FileFormat,
    FileOptions,
    LineError,
    Parsed,
    WholeRows,
)
from research.data.read.formats.parsing.lines import decode, line_feeds
from research.data.read.formats.parsing.rows import (
    check_names,
    is_numbered,
    row_documents,
    with_header,
)


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields and data.label are columns, by name or, without a header, by number.

    Without `fields` it is parallel text: both columns are paragraphs of a document.
    """

    suffixes = (".tsv",)
    example = b"text\tlabel\nA text.\t1\nAnother.\t0\n"
    has_columns = True
    is_text = True

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        rows = _rows(file)
        if options.fields:
            yield from row_documents(with_header(rows, options), options)
            return
        for number, columns in rows:
            if len(columns) != 2 or not all(column.strip() for column in columns):
                raise LineError(
                    number,
                    "a line must have two columns, a text and its translation, "
                    "separated by a tab; data.fields names other columns",
                )
            yield Document("\n".join(columns), id=f":{number}")

    def whole_rows(self, file: BinaryIO, fields: Sequence[str]) -> WholeRows:
        if not fields:
            raise LineError(1, "has columns; name those of text by --fields")
        rows, options = [*_rows(file)], FileOptions(fields=tuple(fields))
        if not rows:
            return WholeRows("", [], [], _line_of)
        first, names = rows[0]
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
            header, indices = _line_of(names), [names.index(f) for f in fields]
            rows = rows[1:]
        for number, row in rows:
            if len(row) != len(names):
                raise LineError(number, f"has {len(row)} columns, not {len(names)}")
        return WholeRows(header, [row for _, row in rows], indices, _line_of)


def _rows(file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """(number, columns) of each line that is not blank."""
    numbered = enumerate(line_feeds(file), 1)
    lines = ((n, decode(line, n).rstrip("\r\n")) for n, line in numbered)
    return ((number, text.split("\t")) for number, text in lines if text)


def _line_of(row: Sequence[str]) -> str:
    return "\t".join(row) + "\n"
