"""Formats of corpus files: each module reads one, and declares what its files contain.

A module is found by listing this folder: nothing else names it. `data.format` chooses
one, or the suffix of a file does.
"""

import codecs
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from research.contract.parts import Folder
from research.data.documents import ArrayType, Document

COMPRESSIONS = ("", ".gz", ".zst")
"""What a file's name may have after the suffix of its format."""

FORMATS = Folder(
    "research.data.read.formats", "Format", more=("auto",), named_by="data.format"
)


class FileOptions(NamedTuple):
    """How documents are read from files: config.data's format, fields and label."""

    format: str = "auto"  # one of FORMATS; auto: by the files' suffix
    fields: tuple[str, ...] = ()  # columns or keys that are parts of an example, in
    # order; in a file without a header numbers from 0, or from -1 for the last
    label: str = ""  # the column or key of the label
    optional: bool = False  # whether rows may lack that column: those of a test split
    own: Mapping[str, Any] = MappingProxyType({})  # keys of that format alone, with
    # values that are not their defaults
    encoding: str = "utf-8"  # of text files, one of Python's

    def key(self) -> list[Any]:
        """The options as a key for fingerprints of documents."""
        own = [dict(self.own)] if self.own else []
        own += (
            []
            if is_utf8(self.encoding)
            else [["encoding", codecs.lookup(self.encoding).name]]
        )
        return [self.format, self.fields, self.label, self.optional, *own]


AUTO = FileOptions()


def is_utf8(encoding: str) -> bool:
    """Whether it is UTF-8, under any of the names that Python has for it."""
    return codecs.lookup(encoding).name == "utf-8"


def check_encoding(name: str) -> None:
    """Raises ValueError: Python has no text encoding of that name."""
    try:
        b"a".decode(name)
    except UnicodeError:
        pass  # an encoding with several bytes per letter
    except LookupError:
        raise ValueError(
            "data.encoding must be an encoding that Python knows, such as utf-8, "
            f"latin-1 or cp1252, not {name!r}"
        ) from None


class LineError(Exception):
    """An error in a line: its number, and what is wrong with it."""


class EncodingError(LineError):
    """A line has bytes that are invalid in the file's encoding."""


class SkippedRows(NamedTuple):
    """Rows of a file that were skipped or lack something, and the reason."""

    count: int
    first: int  # number of the first one's line
    reason: str

    def __str__(self) -> str:
        if self.count == 1:
            return f"1 row, number {self.first}: {self.reason}"
        rows = f"{self.count} rows, the first of which is number {self.first}"
        return f"{rows}: {self.reason}"


FILE_LABELS = ("file", "suffix", "folder")
"""Rules by which all texts of a file have one label: a part of its path."""


class RowReader(NamedTuple):
    """How a row of a data set becomes a document."""

    features: tuple[str, ...]  # that a row needs
    make: Callable[[Mapping[str, Any]], tuple[Document | None, str]]  # the document, if
    # the row has one, and what is wrong with the row, or ""


class WholeRows(NamedTuple):
    """The rows of a file with all columns, to be written again with other texts."""

    header: str  # the line before the rows, with its end; "": there is none
    rows: list[Any]  # of each its columns, a list or a dict
    fields: list[Any]  # the columns that are texts: indices or keys
    line_of: Callable[[Any], str]  # a row as a line of such a file, with its end


Parsed = Iterator[Document | SkippedRows]
"""Documents, whose `id` is ":" and the number of their line, and last `SkippedRows`."""


class FileFormat:
    """The base of all formats.

    A format is a frozen dataclass, whose fields are its own config keys. Each module of
    this folder defines exactly one, a class named `Format`, whose docstring says what
    data.fields and data.label are in its files. It imports its library when it reads.
    """

    suffixes: tuple[str, ...]
    """The suffixes of files that are in this format if data.format is auto."""

    example: bytes = b""
    """A small file of this format, for the law; b"": a library makes such files."""

    is_text: bool = False
    """Whether the files of a folder with these suffixes are read."""

    has_columns: bool = False
    """Whether data.fields are columns or keys, which have names in its files."""

    needs_fields: bool = False
    """Whether a file's suffix implies this format only if data.fields is given."""

    division: str = ""
    """How files become documents: for users who have too few, or too many."""

    arrays: Mapping[str, ArrayType] = MappingProxyType({})
    """The arrays of its documents, see `Document.arrays`."""

    is_encoded: bool = True
    """Whether its files are text, which data.encoding decodes."""

    has_text_lines: bool = False
    """True: each line is a text, which commands that read a file line by line `parse`;
    False: they read each line as it is."""

    label_rules: tuple[str, ...] = ()
    """What data.label may be in files that have no columns: `FILE_LABELS`, which are
    read from a file's path, and others, which `parse` reads."""

    version: int = 1
    """Raise it when the same files give other documents."""

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        """The documents of a file that is not compressed.

        Raises:
          LineError: a line is wrong.
        """
        raise NotImplementedError

    def whole_rows(self, file: BinaryIO, fields: Sequence[str]) -> WholeRows:
        """The rows of a file with all columns, where they can be written again.

        Args:
          fields: the columns that are texts, as in data.fields; (): none are named.

        Raises:
          LineError: as in `parse`, of whose files these are.
        """
        raise NotImplementedError

    def row_reader(
        self, features: Mapping[str, Any], options: FileOptions
    ) -> RowReader | None:
        """How the rows of a data set with such features are read (`tfds_corpus`).

        None: as in any format, by features that are text.
        """
        return None


def make_format(options: FileOptions) -> FileFormat:
    """The format that the options name, with its own keys.

    Raises:
      UserError: there is no such format.
    """
    return FORMATS.make({"format": options.format, **options.own}, "format")


def by_suffix() -> dict[str, FileFormat]:
    """Suffix -> the format of files that have it."""
    formats = (FORMATS.part_class(name, "data.format")() for name in FORMATS.names())
    return {suffix: each for each in formats for suffix in each.suffixes}


def row_formats() -> list[str]:
    """The formats with a `row_reader`."""
    classes = {
        name: FORMATS.part_class(name, "data.format") for name in FORMATS.names()
    }
    return [name for name, cls in classes.items() if "row_reader" in vars(cls)]


def whole_row_suffixes() -> list[str]:
    """The suffixes of files whose format has `whole_rows`."""
    found = by_suffix().items()
    return [suffix for suffix, each in found if "whole_rows" in vars(type(each))]


def text_suffixes() -> tuple[str, ...]:
    """The suffixes of files that are read from a folder, also compressed ones."""
    texts = (suffix for suffix, each in by_suffix().items() if each.is_text)
    return tuple(suffix + end for suffix in texts for end in COMPRESSIONS)


def own_keys(file_format: FileFormat | None) -> dict[str, Any]:
    """The keys that only this format has and whose values are not the defaults."""
    if file_format is None:
        return {}
    values = {
        f.name: getattr(file_format, f.name) for f in dataclasses.fields(file_format)
    }
    defaults = {f.name: f.default for f in dataclasses.fields(file_format)}
    return {name: value for name, value in values.items() if value != defaults[name]}
