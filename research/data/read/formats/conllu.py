"""CoNLL-U: a line is a word, in ten columns between tabs."""

from dataclasses import dataclass
from typing import BinaryIO

from research.contract.errors import unknown
from research.data.documents import TAGS
from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.lines import decode
from research.data.read.formats.parsing.words import sentence

COLUMNS = (
    "id",
    "form",
    "lemma",
    "upos",
    "xpos",
    "feats",
    "head",
    "deprel",
    "deps",
    "misc",
)
"""Names of the columns (universaldependencies.org/format.html)."""


@dataclass(frozen=True)
class Format(FileFormat):
    """A document is a sentence, whose words are its parts, with their tags.

    data.fields is the word's column, by default `form`, and data.label that of its tag,
    by default the universal part of speech. Multiword tokens (ids such as 3-4) and
    empty nodes (3.1) are not words.
    """

    suffixes = (".conllu",)
    example = b"# id = 1\n1\tA\ta\tDET\t_\t_\t0\troot\t_\t_\n\n"
    arrays = TAGS

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        form, tag = (*options.fields, "form")[0], options.label or "upos"
        for name in (form, tag):
            if name not in COLUMNS:
                raise LineError(1, str(unknown("column of CoNLL-U", name, COLUMNS)))
        form_index, tag_index = COLUMNS.index(form), COLUMNS.index(tag)
        words: list[tuple[int, str, str]] = []
        for number, line in enumerate(file, 1):
            text = decode(line, number).rstrip("\r\n")
            if not text:
                yield from sentence(words)
                words = []
            elif not text.startswith("#"):
                columns = text.split("\t")
                if len(columns) != len(COLUMNS):
                    raise LineError(
                        number, f"has {len(columns)} columns between tabs, not 10"
                    )
                if columns[0].isdigit():
                    words.append((number, columns[form_index], columns[tag_index]))
        yield from sentence(words)
