"""Triples of a knowledge graph: a head, a relation and a tail each."""

from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from research.data.documents import Document
from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.lines import decode, line_feeds
from research.data.read.notations import notations
from research.data.read.triples import parse_triples, spell, spell_relation


@dataclass(frozen=True)
class Format(FileFormat):
    """A document is a triple, as three words.

    White space in a name becomes "_", and a relation is in angle brackets.

    The notation, one of `research.data.read.notations`, is detected from the first
    line. Files with other suffixes need data.format=triples. Such a text needs
    data.vocabulary=words and data.separator=none.

    data.fields and data.label have no meaning.
    """

    suffixes = (".triples", *chain(*(each.suffixes for each in notations().values())))
    example = next(iter(notations().values())).example.encode()

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        lines = ((n, decode(line, n)) for n, line in enumerate(line_feeds(file), 1))
        try:
            for number, triple in parse_triples(lines):
                head, relation, tail = triple
                words = spell(head), spell_relation(relation), spell(tail)
                yield Document(" ".join(words), id=f":{number}")
        except ValueError as error:
            raise LineError(*error.args) from error
