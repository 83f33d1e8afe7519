"""Corpora of files: which files, in which format, and the documents of each split."""

import dataclasses
import functools
import glob
import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

from research.data import cache, work_shards
from research.data.corpora import parallel_text, row_formats, task_formats
from research.data.corpora.compression import decompressed, file_suffixes
from research.data.corpora.corpus import TAGS, Corpus, Document, split_of
from research.data.corpora.row_formats import (
    AUTO,
    MAX_DOCUMENT_BYTES,
    Format,
    LineError,
    Parsed,
    SkippedRows,
)
from research.errors import UserError

PARSERS: dict[str, Callable[[BinaryIO, Format], Parsed]] = {
    "txt": row_formats.parse_txt,
    "jsonl": row_formats.parse_jsonl,
    "tsv": row_formats.parse_tsv,
    "csv": row_formats.parse_csv,
    "parquet": row_formats.parse_parquet,
    "conll": task_formats.parse_conll,
    "conllu": task_formats.parse_conllu,
    "squad": task_formats.parse_squad,
}
SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
"""Of texts: of a folder, files with these are read."""
SUFFIX_FORMATS = {f".{name}": name for name in PARSERS} | {".json": "squad"}
OTHER_SOURCES = {"data.corpus": "embedded, docstrings, tfds:NAME, or ", "--data": ""}
"""What a key may name beside files, where it is not a data set of TFDS alone."""
VERSION = 1
"""To be raised when other documents are read from the same files by a `Format`."""


def load_file_corpus(
    name: str, held_out: float | None, fmt: Format = AUTO, key: str = "data.corpus"
) -> Corpus:
    """The corpus of a file, a folder or a glob; with work shards if it is large.

    A file that has no format's suffix is a side of a parallel text, see
    `parallel_text.group_sides`.

    Args:
      name: the path or glob.
      held_out: the fraction of documents in valid, and again in test; None: every split
        has all documents, since the files are those of one split.
      key: the config key of the name, for errors.

    Raises:
      UserError: there are no such files, one has an unknown suffix, or a side of a
        parallel text is missing.
    """
    texts = _find_files(name, fmt, key)
    corpus = _corpus(name, texts, held_out, fmt)
    groups = work_shards.group_files(texts)
    if len(groups) > 1:
        shards = (
            _corpus(f"{name}, {number}", group, held_out, fmt)
            for number, group in enumerate(groups, 1)
        )
        corpus = dataclasses.replace(corpus, work_shards=tuple(shards))
    return corpus


def _corpus(
    name: str, texts: list[tuple[Path, ...]], held_out: float | None, fmt: Format
) -> Corpus:
    """The documents of files, each in the split that its hash gives."""
    sizes = [sum(file.stat().st_size for file in files) for files in texts]

    def is_in(split: str, text: str) -> bool:
        return held_out is None or (
            split_of(text, valid=held_out, test=held_out) == split
        )

    def read(split: str) -> Iterator[Document]:
        earlier = 0  # bytes of the files before this one
        for files, size in zip(texts, sizes, strict=True):
            for document in _read_text(files, fmt):
                if is_in(split, document.text):
                    yield document._replace(amount_read=earlier + document.amount_read)
            earlier += size

    @functools.cache  # since it reads every byte
    def fingerprint() -> str:
        contents = [[file.name, _sha256(file)] for files in texts for file in files]
        named = [VERSION, *fmt] if fmt != AUTO else []
        rules = [held_out, MAX_DOCUMENT_BYTES, *named]
        return cache.fingerprint(["files", contents, *rules])

    names = {_format_name(first, fmt) for first, *_ in texts}
    arrays = TAGS if names & {"conll", "conllu"} else {}
    return Corpus(name, read, fingerprint, sum(sizes), arrays=arrays)


def _find_files(name: str, fmt: Format, key: str) -> list[tuple[Path, ...]]:
    """The files that a path or a glob names, sorted; sides of one text together."""
    path = Path(name).expanduser()
    if path.is_dir():
        suffixes = (*SUFFIXES, *parallel_text.side_suffixes(fmt))
        found = _files_below(path, suffixes if fmt.name == "auto" else "")
    elif path.is_file():
        found = [path]
    else:
        found = [Path(file) for file in glob.glob(str(path), recursive=True)]
    found.sort()
    texts = [(file,) for file in found if _format_name(file, fmt)]
    others = (file for file in found if not _format_name(file, fmt))
    parallel, wrong = parallel_text.group_sides(others, fmt)
    if not found or wrong:
        problem = f"{wrong[0]} has an unknown suffix" if wrong else "no such files"
        if wrong and file_suffixes(wrong[0])[0] in SUFFIX_FORMATS:
            problem = f"{wrong[0]} needs data.fields, the columns to read"
        sources = OTHER_SOURCES.get(key, "tfds:NAME, or ")
        raise UserError(
            f"{key} is {name!r}: {problem}; give {sources}a file, folder or glob of "
            f"{', '.join(SUFFIXES)}, or name the format of others with data.format, or "
            "the sides of a parallel text, files such as a.en and a.de, with "
            "data.fields=en,de"
        )
    for file in found:
        if not file.is_file():
            raise UserError(f"{file}: no file, or a link that leads to none")
    return sorted(texts + parallel)


def _files_below(folder: Path, suffixes: str | tuple[str, ...]) -> list[Path]:
    """The files with `suffixes` in a folder and its subfolders; tells what is left out.

    Raises:
      UserError: a subfolder cannot be read.
    """

    def refuse(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror})")

    found, links = [], []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        subfolders = (Path(parent, name) for name in folders)
        links += [path for path in subfolders if path.is_symlink()]
        found += [Path(parent, name) for name in names if name.endswith(suffixes)]
    if links:
        print(
            f"{folder}: links to {len(links)} folder(s) are not followed, such as "
            f"{min(links)}; a glob reads them, or data.mixture",
            file=sys.stderr,
        )
    return found


def _format_name(file: Path, fmt: Format) -> str:
    """The key of the file's parser; "" if there is none, as of a side."""
    if fmt.name != "auto":
        return fmt.name
    name = SUFFIX_FORMATS.get(file_suffixes(file)[0], "")
    return "" if name == "csv" and not fmt.fields else name


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_texts(file: Path) -> list[str]:
    """The lines of a file, blank ones too; of a .jsonl the `text` of each line.

    Either may be compressed.

    Raises:
      UserError: the file cannot be read, or a line is no text.
    """
    is_json = file_suffixes(file)[0] == ".jsonl"
    parse = row_formats.parse_jsonl if is_json else row_formats.parse_lines
    return [document.text for document in _parse_file(file, parse, AUTO)]


def _read_text(files: tuple[Path, ...], fmt: Format) -> Iterator[Document]:
    """The documents of one file, or of the sides of a parallel text.

    `amount_read` counts bytes on disk. Prints how many rows were left out, if any were.
    """
    first, *_ = files
    if name := _format_name(first, fmt):
        return _parse_file(first, PARSERS[name], fmt)
    sides = [_parse_file(file, row_formats.parse_lines, AUTO) for file in files]
    return _with_names(first, parallel_text.read_sides(files, sides, fmt))


def _parse_file(
    file: Path, parse: Callable[[BinaryIO, Format], Parsed], fmt: Format
) -> Iterator[Document]:
    try:
        with file.open("rb") as raw:
            yield from _with_names(file, parse(decompressed(file, raw), fmt), raw)
    except LineError as error:
        raise UserError(f"{file}:{error.args[0]}: {error.args[1]}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file}: not a complete gzip file ({error})") from error
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{file}: cannot be read ({reason})") from error


def _with_names(
    file: Path, parsed: Parsed, raw: BinaryIO | None = None
) -> Iterator[Document]:
    """The documents, each with its file in its `id`; prints what was left out.

    Args:
      raw: what is read, where documents do not have their `amount_read`.
    """
    for document in parsed:
        if isinstance(document, SkippedRows):
            what = f"{document.count} rows, the first at {document.first}"
            print(f"{file}: {what}: {document.reason}", file=sys.stderr)
            continue
        name = file.name if document.id.startswith(":") else ""
        amount_read = raw.tell() if raw else document.amount_read
        yield document._replace(amount_read=amount_read, id=name + document.id)
