"""Captions with the numbers of their pictures, as `palimpsest images` writes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from research.data.documents import ArrayType, Document
from research.data.read.formats import (
    EncodingError,
    FileFormat,
    FileOptions,
    LineError,
    Parsed,
)
from research.data.read.formats.parsing.lines import json_rows, replace_surrogates
from research.data.read.formats.parsing.rows import row_label

IMAGE = "image"
"""The array: the number of the picture in its store."""
VECTOR = "vector"
"""The array: the number of the caption's vector in the store; -1: it has none."""


@dataclass(frozen=True)
class Format(FileFormat):
    """A line is a JSON object: a text, the number of its picture, maybe a label.

    It may have the number of a vector that `palimpsest images --caption-vectors` wrote.

    data.fields has no meaning; data.label is the key of the label.
    """

    suffixes = (".captioned",)
    example = b'{"text": "A stone.", "image": 0}\n{"text": "A sea.", "image": 1}\n'
    is_text = True
    arrays = dict.fromkeys((IMAGE, VECTOR), ArrayType("document", np.int32))

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        try:
            yield from _documents(file, options)
        except EncodingError:
            raise
        except LineError as error:
            number, reason = error.args
            advice = "palimpsest images writes such files from a table of captions"
            raise LineError(number, f"{reason}; {advice}") from error


def _documents(file: BinaryIO, options: FileOptions) -> Iterator[Document]:
    for number, row in json_rows(file):
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str) or type(row.get(IMAGE)) is not int:
            raise LineError(
                number,
                'must be a JSON object with a string "text" and a whole number "image"',
            )
        vector = row.get(VECTOR, -1)
        if type(vector) is not int:
            raise LineError(number, '"vector" must be a whole number')
        label = row_label(number, row.get(options.label or "label"), options)
        yield Document(
            replace_surrogates(text),
            label,
            id=f":{number}",
            arrays={IMAGE: row[IMAGE], VECTOR: vector},
        )
