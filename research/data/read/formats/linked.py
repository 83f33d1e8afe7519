"""Texts with links to entities, as `palimpsest link` writes them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np

from research.data.documents import ArrayType, Document
from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.lines import json_rows, replace_surrogates
from research.data.read.formats.parsing.rows import row_label

LINK = "link"
"""The array: the number of the name, from 1, where a mention begins; 0 inside of it and
-1 elsewhere."""


@dataclass(frozen=True)
class Format(FileFormat):
    """A line is a JSON object with a text, its links, and perhaps a label.

    `text` is a string, and `links` a list of [begin, end, number]: the characters of a
    mention, and the number of its name in the table of names. data.fields has no
    meaning; data.label is the key of the label.
    """

    suffixes = (".linked",)
    example = b'{"text": "A stone.", "links": [[0, 2, 1]]}\n'
    is_text = True
    arrays = {LINK: ArrayType("token")}  # noqa: RUF012

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        for number, row in json_rows(file):
            text = row.get("text") if isinstance(row, dict) else None
            if not isinstance(text, str) or not isinstance(row.get("links"), list):
                raise LineError(
                    number, 'must be a JSON object with a string "text" and "links"'
                )
            link = np.full(len(text), -1, np.int64)
            links = sorted(_span(number, each, len(text)) for each in row["links"])
            for one, two in pairwise(links):
                if two[0] < one[1]:
                    raise LineError(number, f"links {[*one]} and {[*two]} overlap")
            for begin, end, name in links:
                link[begin:end], link[begin] = 0, name
            label = row_label(number, row.get(options.label or "label"), options)
            yield Document(
                replace_surrogates(text), label, id=f":{number}", arrays={LINK: link}
            )


def _span(number: int, link: object, size: int) -> tuple[int, int, int]:
    """begin, end and number of a link in a text of `size` characters."""
    is_link = isinstance(link, list) and len(link) == 3
    if not (is_link and all(type(each) is int for each in link)):
        raise LineError(
            number, f"a link must be [begin, end, number]; got {link!r:.60}"
        )
    begin, end, name = link
    if not 0 <= begin < end <= size:
        raise LineError(
            number, f"link {link} must lie within the {size} characters of the text"
        )
    if name < 1:
        raise LineError(number, f"link {link}: the number of a name is at least 1")
    return begin, end, name
