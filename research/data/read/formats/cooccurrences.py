"""Co-occurrences: a line is two words and how often they meet, between tabs."""

import itertools
import math
from dataclasses import dataclass
from typing import BinaryIO

from research.data.documents import ArrayType, join_parts
from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.lines import decode

CELLS_PER_DOCUMENT = 512

CELLS = "cooccurrence"
"""The array of how often the words of each pair meet."""


@dataclass(frozen=True)
class Format(FileFormat):
    """A document is 512 lines, whose pairs of words are its parts.

    `palimpsest cooccurrences` writes such a file. It needs data.vocabulary=words and
    data.separator=none. The vocabulary has all words, since pairs do not show how
    frequent they are; words that co-occur with the most others are first.

    data.fields and data.label have no meaning.
    """

    suffixes = (".cooccurrences",)
    example = b"a\tb\t2\nb\ta\t1\n"
    arrays = {CELLS: ArrayType("part", "float32")}  # noqa: RUF012

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        numbered = enumerate(file, 1)
        while lines := list(itertools.islice(numbered, CELLS_PER_DOCUMENT)):
            cells = [self._cell(decode(line, number), number) for number, line in lines]
            document = join_parts([pair for pair, _ in cells], " ")
            arrays = {CELLS: [count for _, count in cells]}
            yield document._replace(id=f":{lines[0][0]}", arrays=arrays)

    def _cell(self, line: str, number: int) -> tuple[str, float]:
        """The pair of words of a line, and its number."""
        columns = line.rstrip("\r\n").split("\t")
        try:
            first, second, count = columns
            value = float(count)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf or len(f"{first} {second}".split()) != 2:
            raise LineError(
                number, "is not two words and a number above 0, between tabs"
            )
        return f"{first} {second}", value
