"""Formats whose lines are documents: JSON lines, TSV, CSV, Parquet; and plain text."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from research.data.corpora.corpus import LABEL_SEPARATOR, Document, join_parts
from research.errors import unknown

MAX_DOCUMENT_BYTES = 2**20
"""Bytes after which a document of a `.txt` file without a blank line is cut."""


class Format(NamedTuple):
    """How documents are read from files: config.data's format, fields and label."""

    name: str = "auto"  # by the files' suffix
    fields: tuple[str, ...] = ()  # columns or keys that are parts of an example, in
    # order; in a file without a header numbers from 0, or from -1 for the last
    label: str = ""  # the column or key of the label
    optional: bool = False  # whether rows may lack that column: those of a test split


AUTO = Format()


class LineError(Exception):
    """The number of a line, and what is wrong with the line."""


class SkippedRows(NamedTuple):
    """Rows that were left out of a file, or lack something, and why."""

    count: int
    first: int  # number of the first one's line
    reason: str


Parsed = Iterator[Document | SkippedRows]
"""Documents, whose `id` is ":" and the number of their line, and last `SkippedRows`."""


def parse_txt(file: BinaryIO, fmt: Format) -> Parsed:
    """Each document; a blank line ends a document."""
    document, size, first = [], 0, 1
    for number, line in enumerate(_line_feeds(file), 1):
        blank = line.isspace()
        if not blank:
            document.append(decode(line, number))
            size += len(line)
        if blank or size > MAX_DOCUMENT_BYTES:
            yield Document("".join(document), id=f":{first}")
            document, size, first = [], 0, number + 1
    yield Document("".join(document), id=f":{first}")


def parse_lines(file: BinaryIO, fmt: Format) -> Parsed:
    """Each line, without its end; a blank one is a document without text."""
    for number, line in enumerate(_line_feeds(file), 1):
        text = decode(line, number).rstrip("\r\n")
        yield Document(text, id=f":{number}")


def parse_jsonl(file: BinaryIO, fmt: Format) -> Parsed:
    """The object of each line that is not blank, by its keys.

    Without `fields` a line has a string `text`, and may have a `label`.
    """
    rows = _json_rows(file)
    if fmt.fields:
        yield from row_documents(rows, fmt)
        return
    for number, row in rows:
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise LineError(number, 'a line is a JSON object with a string "text"')
        if fmt.label and fmt.label not in row:
            raise LineError(number, _no_column(fmt.label, row))
        label = _label(row.get(fmt.label or "label"), number)
        yield Document(replace_surrogates(text), label, id=f":{number}")


def parse_tsv(file: BinaryIO, fmt: Format) -> Parsed:
    """The row of each line that is not empty; quotes have no meaning (as in GLUE).

    Without `fields`, parallel text: both columns as two paragraphs.
    """
    numbered = enumerate(_line_feeds(file), 1)
    lines = ((n, decode(line, n).rstrip("\r\n")) for n, line in numbered)
    rows = ((number, text.split("\t")) for number, text in lines if text)
    if fmt.fields:
        yield from row_documents(_with_header(rows, fmt), fmt)
        return
    for number, columns in rows:
        if len(columns) != 2 or not all(column.strip() for column in columns):
            raise LineError(
                number, "a line of parallel text has two columns, separated by a tab"
            )
        yield Document("\n".join(columns), id=f":{number}")


def parse_csv(file: BinaryIO, fmt: Format) -> Parsed:
    """The row of each line that is not empty; a field in quotes may have line ends."""
    lines = (decode(line, number) for number, line in enumerate(file, 1))
    reader = csv.reader(lines, strict=True)

    def rows() -> Iterator[tuple[int, list[str]]]:
        first = 1
        try:
            for row in reader:
                if row:
                    yield first, row
                first = reader.line_num + 1
        except csv.Error as error:
            raise LineError(first, f"not CSV ({error})") from error

    yield from row_documents(_with_header(rows(), fmt), fmt)


def parse_parquet(file: BinaryIO, fmt: Format) -> Parsed:
    """The rows, by the names of their columns; `text` without `fields`."""
    import pyarrow  # only where there is such a file
    from pyarrow import parquet

    try:
        batches = parquet.ParquetFile(file).iter_batches()
    except pyarrow.ArrowInvalid as error:
        raise LineError(1, f"not Parquet ({str(error).splitlines()[0]})") from error
    rows = enumerate((row for batch in batches for row in batch.to_pylist()), 1)
    yield from row_documents(
        rows, fmt if fmt.fields else fmt._replace(fields=("text",))
    )


def _line_feeds(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines; those of a file without line feeds end with carriage returns."""
    for line in lines:
        if line.endswith(b"\n"):
            yield line
        else:
            yield from line.replace(b"\r", b"\n").splitlines(keepends=True)


def _json_rows(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(_line_feeds(file), 1):
        if line.isspace():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LineError(number, f"not a JSON object ({error})") from error


def _with_header(
    rows: Iterable[tuple[int, Sequence[str]]], fmt: Format
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Rows by the names of their columns, or by the numbers that `fmt` has instead.

    Columns that are named have a header; without one they are numbered.
    """
    names = [name for name in (*fmt.fields, fmt.label) if name]
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


def row_documents(rows: Iterable[tuple[int, Any]], fmt: Format) -> Parsed:
    """The documents of rows that have names; of a list each item is a part.

    Raises:
      LineError: a column or key is missing, or is no text.
    """
    blank, hidden = [], []
    for number, row in rows:
        if not isinstance(row, Mapping):
            raise LineError(number, f"a line is a JSON object, not {row!r:.40}")
        for name in (*fmt.fields, fmt.label):
            if not name or name in row:
                continue
            if name != fmt.label or not fmt.optional:
                raise LineError(number, _no_column(name, row))
            hidden.append(number)
        parts: list[str] = []
        for name in fmt.fields:
            value = row[name]
            parts += value if isinstance(value, list) else [value]
        if wrong := [part for part in parts if not isinstance(part, str)]:
            raise LineError(number, f"{wrong[0]!r:.40} is no text of data.fields")
        parts = [replace_surrogates(part) for part in parts]
        if not all(part.strip() for part in parts):
            blank.append(number)
            continue
        label = _label(row.get(fmt.label), number)
        yield join_parts(parts, "\n")._replace(label=label, id=f":{number}")
    if blank:
        yield SkippedRows(len(blank), blank[0], "a field of data.fields is blank")
    if hidden:
        reason = f"have no column {fmt.label!r}, so no label"
        yield SkippedRows(len(hidden), hidden[0], reason)


def _no_column(name: str, row: Mapping) -> str:
    return str(unknown("column of data.fields or data.label", name, row))


def _label(value: Any, number: int) -> str | None:
    """A label as text; None if there is none."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, Mapping | list):
            raise LineError(number, f"{value!r:.40} is no label: text or a number")
    if isinstance(value, list):
        return LABEL_SEPARATOR.join(sorted(map(str, value)))
    return None if value is None or not str(value).strip() else str(value).strip()


def decode(line: bytes, number: int) -> str:
    """The text of a line, without the byte order mark that a file may begin with."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise LineError(number, f"not UTF-8 ({error.reason})") from error


def replace_surrogates(text: str) -> str:
    """The text, with U+FFFD for the lone surrogates that JSON allows."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
