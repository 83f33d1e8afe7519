"""Plain text: a blank line ends a document."""

from dataclasses import dataclass
from typing import BinaryIO

from research.data.documents import Document
from research.data.read.formats import FILE_LABELS, FileFormat, FileOptions, Parsed
from research.data.read.formats.parsing.lines import decode, line_feeds

MAX_DOCUMENT_BYTES = 2**20
"""Bytes after which a document without a blank line is cut."""


@dataclass(frozen=True)
class Format(FileFormat):
    """Texts; their labels may be a part of their file's path.

    data.fields has no meaning. data.label is the part of a file's path that is the
    label of its texts (`FILE_LABELS`); without it they have none.
    """

    suffixes = (".txt",)
    example = "A text.\n\nAnother one, \u0e17\u0e35\u0e48.\n".encode() * 3
    is_text = True
    label_rules = FILE_LABELS
    blank_ends = True  # a blank line ends a document
    division = (
        "in .txt a blank line ends a document; data.format=lines makes each line one, "
        "data.format=document each file"
    )

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        document, size, first = [], 0, 1
        for number, line in enumerate(line_feeds(file), 1):
            blank = line.isspace()
            if not (blank and self.blank_ends):
                document.append(decode(line, number))
                size += len(line)
            if (blank and self.blank_ends) or size > MAX_DOCUMENT_BYTES:
                yield Document("".join(document), id=f":{first}")
                document, size, first = [], 0, number + 1
        yield Document("".join(document), id=f":{first}")
