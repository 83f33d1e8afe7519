"""Columns between tabs; quotes have no meaning (as in GLUE)."""

from dataclasses import dataclass
from typing import BinaryIO

from research.data.documents import Document
from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.lines import decode, line_feeds
from research.data.read.formats.parsing.rows import row_documents, with_header


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
        numbered = enumerate(line_feeds(file), 1)
        lines = ((n, decode(line, n).rstrip("\r\n")) for n, line in numbered)
        rows = ((number, text.split("\t")) for number, text in lines if text)
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
