"""CoNLL: a line is a word, in columns between tabs or spaces."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from research.data.documents import TAGS, Document, join_parts
from research.data.read.formats import (
    FileFormat,
    FileOptions,
    LineError,
    Parsed,
    RowReader,
)
from research.data.read.formats.parsing.lines import decode
from research.data.read.formats.parsing.values import class_names, label_of
from research.data.read.formats.parsing.words import sentence

COMMENT = re.compile(
    r"#[ \t]*(id +\S|sent_id\b|text *=|newdoc\b|newpar\b|(begin|end) document\b)"
)
"""Of MultiCoNER, CoNLL-U and CoNLL-2012; # may also be a word."""


@dataclass(frozen=True)
class Format(FileFormat):
    """A document is a sentence, whose words are its parts, with their tags.

    A blank line ends a sentence. Lines that begin with -DOCSTART- and comments before a
    sentence, such as `# id 5` or `#begin document`, are skipped. If the first word's
    line has a tab, columns are separated by tabs, and a word may have spaces; else by
    spaces. No other white space separates columns, as in conlleval.
    data.fields is the number of the word's column, by default the first, and data.label
    that of its tag, by default the last.
    """

    suffixes = (".conll",)
    example = b"One B-X\nword O\n\nTwo I-X\n\n"
    arrays = TAGS

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        word_column, tag_column = options.fields or ("0",), options.label or "-1"
        try:
            (word_index,), tag_index = map(int, word_column), int(tag_column)
        except ValueError:
            raise LineError(
                1,
                "data.fields and data.label must be numbers of CoNLL columns",
            ) from None
        words: list[tuple[int, str, str]] = []
        width, separator = 0, None
        for number, line in enumerate(file, 1):
            text = decode(line, number).strip(" \t\r\n")
            is_start = text.startswith("-DOCSTART-")
            is_start |= not words and bool(COMMENT.match(text))
            if text and not is_start and separator is None:
                separator = re.compile(" *\t *" if "\t" in text else " +")
            if is_start or not text.strip():
                yield from sentence(words)
                words = []
                continue
            columns = separator.split(text)
            width = width or len(columns)
            if len(columns) != width:
                raise LineError(number, f"has {len(columns)} columns, not {width}")
            try:
                if range(width)[word_index] == range(width)[tag_index]:
                    raise LineError(
                        number, f"the word and its tag have the same column of {width}"
                    )
                words.append((number, columns[word_index], columns[tag_index]))
            except IndexError:
                raise LineError(
                    number, f"has {width} columns, none is {word_index} or {tag_index}"
                ) from None
        yield from sentence(words)

    def row_reader(
        self, features: Mapping[str, Any], options: FileOptions
    ) -> RowReader:
        """Of words, by default `tokens`, and their tags, by default `ner`."""
        words, tag = (*options.fields, "tokens")[0], options.label or "ner"
        names = class_names(features, tag)
        return RowReader(
            (words, tag), lambda row: _row_document(row[words], row[tag], names)
        )


def _row_document(
    words: Any, tags: Any, names: tuple[str, ...]
) -> tuple[Document | None, str]:
    """The document of a row's words with their tags, and what is wrong, or ""."""
    forms = [word.decode("utf-8", "replace") for word in words]
    if not forms or not all(form.strip(" ") for form in forms):
        return None, "a word is blank, or there are none"
    found = tuple(names[tag] if names else label_of(tag) for tag in tags)
    if not all(found):
        return None, "a word has no tag"
    return join_parts(forms, " ")._replace(arrays={"tags": found}), ""
