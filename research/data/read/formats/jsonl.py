"""JSON lines: each line that is not blank is an object."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from research.contract.errors import unknown
from research.data.documents import Document
from research.data.read.formats import (
    FileFormat,
    FileOptions,
    LineError,
    Parsed,
    WholeRows,
)
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
    has_text_lines = True

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

    def whole_rows(self, file: BinaryIO, fields: Sequence[str]) -> WholeRows:
        """Rows are objects, and by default `text` of each is its text."""
        names, rows = list(fields) or ["text"], []
        for number, row in json_rows(file, names):
            if not isinstance(row, dict):
                raise LineError(
                    number, f"a line must be a JSON object, not {row!r:.40}"
                )
            for name in names:
                if name not in row:
                    raise LineError(number, str(unknown("key", name, row)))
                if not isinstance(row[name], str):
                    raise LineError(
                        number, f"{name!r} must be text, not {row[name]!r:.40}"
                    )
                row[name] = replace_surrogates(row[name])
            rows.append(row)
        return WholeRows("", rows, names, _line_of)


def _line_of(row: dict[str, Any]) -> str:
    return replace_surrogates(json.dumps(row, ensure_ascii=False)) + "\n"
