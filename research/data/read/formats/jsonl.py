"""JSON lines: each line that is not blank is an object."""

from dataclasses import dataclass
from typing import BinaryIO

from research.data.documents import Document
from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.lines import json_rows, replace_surrogates
from research.data.read.formats.parsing.rows import no_column, row_documents, row_label


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields are keys; each item of a list is a part.

    data.label is a key, too. Without `fields`, a line has a string `text`, and may have
    a `label`.
    """

    suffixes = (".jsonl",)
    example = b'{"text": "A text.", "label": 1}\n{"text": "B.", "label": 0}\n'
    has_columns = True
    is_text = True

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        rows = json_rows(
            file, [*options.fields, options.label] if options.fields else ()
        )
        if options.fields:
            yield from row_documents(rows, options)
            return
        for number, row in rows:
            text = row.get("text") if isinstance(row, dict) else None
            if not isinstance(text, str):
                raise LineError(
                    number, 'a line must be a JSON object with a string "text"'
                )
            if options.label and options.label not in row:
                raise LineError(number, no_column(options.label, row, options))
            label = row_label(number, row.get(options.label or "label"), options)
            yield Document(replace_surrogates(text), label, id=f":{number}")
