"""Columns between commas; a field in quotes may have line ends."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from research.contract.fields import MAX_INT
from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.lines import decode, split_lines
from research.data.read.formats.parsing.rows import row_documents, with_header


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields and data.label are columns, by name or, without header, by number."""

    suffixes = (".csv",)
    example = b"text,label\nA text.,1\nAnother.,0\n"
    has_columns = True
    needs_fields = True

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        csv.field_size_limit(MAX_INT)  # by default a field has at most 131,072 letters
        numbered = enumerate(split_lines(file), 1)
        lines = (decode(line, number) for number, line in numbered)
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

        yield from row_documents(with_header(rows(), options), options)
