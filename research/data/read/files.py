"""Corpora of files: which files, in which format, and the documents of each split."""

import dataclasses
import functools
import gzip
import hashlib
import itertools
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from research.contract.errors import UserError, os_reason
from research.data import cache, work_shards
from research.data.documents import ArrayType, Document
from research.data.read import formats, parallel_text, text_sources
from research.data.read.compression import as_utf8, decompressed, file_suffixes
from research.data.read.corpus import Corpus, HeldOut, held_out_fractions, split_of
from research.data.read.formats import (
    AUTO,
    FILE_LABELS,
    EncodingError,
    FileFormat,
    FileOptions,
    LineError,
    Parsed,
    SkippedRows,
    is_utf8,
)
from research.data.read.formats.parsing.lines import parse_lines
from research.data.read.formats.txt import MAX_DOCUMENT_BYTES
from research.files.existence import missing_part
from research.files.paths import files_below, find_paths, user_path

VERSION = 1
"""Raise it when the same files and `FileOptions` give other documents."""


def load_file_corpus(
    name: str,
    held_out: HeldOut,
    options: FileOptions = AUTO,
    key: str = "data.corpus",
) -> Corpus:
    """The corpus of a file, a folder or a glob; with work shards if it is large.

    A file whose suffix belongs to no format is a side of a parallel text, see
    `parallel_text.group_sides`.

    Args:
      name: the path or glob.
      key: the config key of the name, for errors.

    Raises:
      UserError: there are no such files, one has an unknown suffix, or a side of a
        parallel text is missing.
    """
    reader = _Reader(options, key)
    texts = _find_files(name, reader, key)
    corpus = _corpus(name, texts, held_out, reader)
    groups = work_shards.group_files(texts)
    if len(groups) > 1:
        shards = (
            _corpus(f"{name}, {number}", group, held_out, reader)
            for number, group in enumerate(groups, 1)
        )
        corpus = dataclasses.replace(corpus, work_shards=tuple(shards))
    return corpus


class _Reader:
    """Reads files in the format that the options name, or each by its suffix."""

    def __init__(self, options: FileOptions, key: str):
        self.options, self._key = options, key
        self._by_suffix = formats.by_suffix()
        is_auto = options.format == AUTO.format
        self._named = None if is_auto else formats.make_format(options)

    def format_of(self, file: Path) -> FileFormat | None:
        """The format of a file; None for a side of a parallel text."""
        if self._named:
            return self._named
        found = self._by_suffix.get(file_suffixes(file)[0])
        if found and found.needs_fields and not self.options.fields:
            return None
        return found

    def is_known(self, file: Path) -> bool:
        """Whether some format has files of that suffix."""
        return file_suffixes(file)[0] in self._by_suffix

    def folder_suffixes(self) -> tuple[str, ...]:
        """The suffixes of the files that are read from a folder."""
        if self._named:
            return ("",)
        sides = parallel_text.side_suffixes(self.options)
        return (*formats.text_suffixes(), *sides)

    def read(self, files: tuple[Path, ...]) -> Iterator[Document]:
        """The documents of one file, or of the sides of a parallel text.

        `amount_read` counts bytes on disk. Prints how many rows were left out.
        """
        first, *_ = files
        hint = ""
        if self._key.startswith("data."):
            hint = "; data.encoding names the files' encoding, as in latin-1 or cp1252"
        if found := self.format_of(first):
            documents = _parse_file(first, found.parse, self.options, hint)
            return self._with_label(first, found, documents)
        lines = AUTO._replace(encoding=self.options.encoding)
        sides = [_parse_file(file, parse_lines, lines, hint) for file in files]
        return _with_names(first, parallel_text.read_sides(files, sides, self.options))

    def _with_label(
        self, file: Path, found: FileFormat, documents: Iterator[Document]
    ) -> Iterator[Document]:
        """The documents, with the label from the file's path if data.label asks so."""
        if not self.has_file_label(found):
            return documents
        label = _file_label(file, self.options.label)
        return (document._replace(label=label) for document in documents)

    def has_file_label(self, found: FileFormat) -> bool:
        """Whether data.label is a part of the path of the files of a format."""
        return bool(found.label_rules) and self.options.label in FILE_LABELS

    def check(self, name: str, texts: list[tuple[Path, ...]]) -> None:
        """Checks that data.label and data.encoding fit the files.

        Args:
          name: the folder, file or glob that names the files.

        Raises:
          UserError: files without columns have no such label, all of them have the same
            one, a folder has files next to its folders of labels, or a file is not
            text.
        """
        label, by_label = self.options.label, {}
        for first, *_ in texts:
            found = self.format_of(first)
            if found and not found.is_encoded and not is_utf8(self.options.encoding):
                raise UserError(
                    f"data.encoding={self.options.encoding} is for text files, which "
                    f"{first} is not; leave it out"
                )
            rules = found.label_rules if found else ()
            if rules and label and label not in rules:
                raise UserError(
                    f"data.label={label}: {first} has no columns; data.label can be "
                    f"{', '.join(rules[:-1])} or {rules[-1]}; data.format=tsv reads "
                    "columns whatever the file's name"
                )
            if found and self.has_file_label(found):
                by_label.setdefault(_file_label(first, label), first)
                parent = Path(user_path(name))
                is_beside = parent.is_dir() and first.parent.parent != parent
                if label == "folder" and is_beside:
                    raise UserError(
                        f"data.label=folder: {first} is not in a folder of {name}, "
                        "whose name would be its label; leave it out by a glob, as in "
                        f"{name}/[np]*/*{first.suffix}"
                    )
        if len(by_label) == 1 and self._key in ("data.corpus", "data.train"):
            ((only, first),) = by_label.items()
            raise UserError(
                f"data.label={label}: all {len(texts)} files of {name} have the label "
                f"{only!r}, such as {first.name}; {_FILE_RULES}"
            )

    def arrays(self, texts: list[tuple[Path, ...]]) -> dict[str, ArrayType]:
        """The arrays that documents of the files have besides text.

        Raises:
          UserError: two formats have the same array with different types.
        """
        found: dict[str, ArrayType] = {}
        for each in self._formats(texts):
            for name, array_type in each.arrays.items():
                if found.setdefault(name, array_type) != array_type:
                    raise UserError(
                        f"array {name!r} of {texts[0][0].parent} has another type in "
                        "each format; name files of one format"
                    )
        return found

    def rules(self, texts: list[tuple[Path, ...]]) -> list:
        """What documents depend on besides the bytes of files, for a fingerprint."""
        named = [VERSION, *self.options.key()] if self.options != AUTO else []
        formats = self._formats(texts)
        later = [[each.suffixes, each.version] for each in formats if each.version > 1]
        if self.options.label == "folder" and any(map(self.has_file_label, formats)):
            later.append([first.parent.name for first, *_ in texts])
        return named + later

    def division(self, texts: list[tuple[Path, ...]]) -> str:
        """The first `FileFormat.division` of the files' formats; "": none has one."""
        return next((f.division for f in self._formats(texts) if f.division), "")

    def _formats(self, texts: list[tuple[Path, ...]]) -> list[FileFormat]:
        found = {type(self.format_of(first)): first for first, *_ in texts}
        return [each for first in found.values() if (each := self.format_of(first))]


def _corpus(
    name: str, texts: list[tuple[Path, ...]], held_out: HeldOut, reader: _Reader
) -> Corpus:
    """The corpus of the documents of files, divided into splits by hash."""
    sizes = [sum(file.stat().st_size for file in files) for files in texts]
    fractions = held_out_fractions(held_out)

    def is_in(split: str, text: str) -> bool:
        return held_out is None or split_of(text, **fractions) == split

    def read(split: str) -> Iterator[Document]:
        earlier = 0  # bytes of the files before this one
        for files, size in zip(texts, sizes, strict=True):
            for document in reader.read(files):
                if is_in(split, document.text):
                    yield document._replace(amount_read=earlier + document.amount_read)
            earlier += size

    @functools.cache  # since it reads every byte
    def fingerprint() -> str:
        contents = [[file.name, _sha256(file)] for files in texts for file in files]
        rules = [held_out, MAX_DOCUMENT_BYTES, *reader.rules(texts)]
        return cache.fingerprint(["files", contents, *rules])

    arrays, all_files = reader.arrays(texts), tuple(itertools.chain(*texts))
    return Corpus(
        name,
        read,
        fingerprint,
        sum(sizes),
        arrays=arrays,
        files=all_files,
        division=reader.division(texts),
    )


def _find_files(name: str, reader: _Reader, key: str) -> list[tuple[Path, ...]]:
    """The files of a path or a glob, sorted, with the sides of a text grouped."""
    path = Path(user_path(name))
    source = text_sources.source_of(name)
    if source and source.is_files:
        found = source.fetch(key)
    elif path.is_dir():
        found = files_below(path, reader.folder_suffixes())
    elif path.is_file():
        found = [path]
    else:
        found = find_paths(path)
    found.sort()
    texts = [(file,) for file in found if reader.format_of(file)]
    others = (file for file in found if not reader.format_of(file))
    parallel, wrong = parallel_text.group_sides(others, reader.options)
    if not found and not (source and source.is_files):
        missing = missing_part(path)
        if missing.startswith("no folder") or "did you mean" in missing:
            raise UserError(f"{key} is {name!r}: {missing}")
    if not found or wrong:
        is_flag = key.startswith("--")
        problem = f"{wrong[0]} has an unknown suffix" if wrong else "no such files"
        if wrong and reader.is_known(wrong[0]) and not is_flag:
            raise UserError(
                f"{key}={name}: {wrong[0]} has columns; name those to read, as in "
                "data.fields=sentence1,sentence2"
            )
        if wrong and reader.is_known(wrong[0]):
            problem = f"{wrong[0]} has columns"
        suffixes = ", ".join(formats.text_suffixes())
        files = f"a file, folder or glob of {suffixes}"
        if is_flag:
            raise UserError(f"{key}={name}: {problem}; give {files}")
        named = ", ".join(
            cls.called
            for cls in text_sources.classes()
            if key == "data.corpus" or not cls.is_built_in
        )
        raise UserError(
            f"{key} is {name!r}: {problem}; give {named}, or {files}",
            ", or name the format of others with data.format, or the sides of a "
            "parallel text, files such as a.en and a.de, with data.fields=en,de",
        )
    for file in found:
        if not file.is_file():
            raise UserError(f"{file}: no such file, or a broken link")
    reader.check(name, texts)
    return sorted(texts + parallel)


def _file_label(file: Path, rule: str) -> str:
    """The label of all texts of a file, by one of FILE_LABELS."""
    suffix, compression = file_suffixes(file)
    match rule:
        case "folder":
            return file.resolve().parent.name
        case "suffix":
            return suffix[1:]
    return file.name.removesuffix(compression).partition(".")[0]


_FILE_RULES = (
    "data.label=file is the name up to the first dot, suffix the part after the last "
    "dot, folder the name of the folder"
)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_texts(file: Path, flag: str) -> list[str]:
    """All of `iter_texts`, at least one.

    Args:
      flag: the flag that names the file, such as --texts, for the error.

    Raises:
      UserError: see `iter_texts`; or there are none.
    """
    texts = [*iter_texts(file)]
    if not texts:
        raise UserError(f"{flag}={file} has no texts")
    return texts


def iter_texts(file: Path) -> Iterator[str]:
    """The lines of a file, including blank ones; or the text that each of them has.

    Formats with `has_text_lines` have such texts, as .jsonl has.

    Either may be compressed.

    Raises:
      UserError: the file cannot be read, a line is not text, or the file is a pipe,
        which might block forever.
    """
    if file.is_fifo():
        raise UserError(f"{file} is a pipe; write its lines to a file first")
    found = formats.by_suffix().get(file_suffixes(file)[0])
    parse = found.parse if found and found.has_text_lines else parse_lines
    for document in _parse_file(file, parse, AUTO):
        yield document.text


def read_lines(stream: BinaryIO, name: str) -> list[str]:
    """The lines of a stream, as `read_texts` reads those of a file.

    Args:
      name: what the stream is, for errors.

    Raises:
      UserError: a line is not UTF-8.
    """
    try:
        return [document.text for document in parse_lines(stream, AUTO)]
    except LineError as error:
        raise UserError(f"{name}:{error.args[0]}: {error.args[1]}") from error


def _parse_file(
    file: Path,
    parse: Callable[[BinaryIO, FileOptions], Parsed],
    options: FileOptions,
    hint: str = "",
) -> Iterator[Document]:
    """The documents of a file.

    Args:
      hint: added to the error about bytes that are invalid in the encoding.
    """
    try:
        with file.open("rb") as raw:
            content = decompressed(file, raw)
            if not is_utf8(options.encoding):
                content = as_utf8(content, options.encoding)
            yield from _with_names(file, parse(content, options), raw)
    except LineError as error:
        end = hint if isinstance(error, EncodingError) else ""
        raise UserError(f"{file}:{error.args[0]}: {error.args[1]}", end) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file}: not a complete gzip file ({error})") from error
    except OSError as error:
        reason = os_reason(error)
        raise UserError(f"{file}: cannot be read ({reason})") from error


def _with_names(
    file: Path, parsed: Parsed, raw: BinaryIO | None = None
) -> Iterator[Document]:
    """The documents, each with its file in its `id`; prints what was left out.

    Args:
      raw: the file that is read, if documents do not have their `amount_read`.
    """
    for document in parsed:
        if isinstance(document, SkippedRows):
            print(f"{file}: {document}", file=sys.stderr)
            continue
        name = file.name if document.id.startswith(":") else ""
        amount_read = raw.tell() if raw else document.amount_read
        yield document._replace(amount_read=amount_read, id=name + document.id)
