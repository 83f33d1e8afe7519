"""Corpora of text files: plain text, JSON lines and tab-separated parallel text."""

import dataclasses
import functools
import glob
import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from research.data import work_shards
from research.data.corpora.corpus import Corpus, Document, split_of
from research.errors import UserError

SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
MAX_DOCUMENT_BYTES = 2**20
"""Bytes after which a document of a `.txt` file without a blank line is cut."""


def load_file_corpus(name: str, held_out: float) -> Corpus:
    """The corpus of a file, a folder or a glob; with work shards if it is large.

    Args:
      name: the path or glob.
      held_out: the fraction of documents in valid, and again in test.

    Raises:
      UserError: there are no such files, or one has none of `SUFFIXES`.
    """
    files = _find_files(name)
    corpus, groups = _corpus(name, files, held_out), work_shards.group_files(files)
    if len(groups) > 1:
        shards = (
            _corpus(f"{name}, {number}", group, held_out)
            for number, group in enumerate(groups, 1)
        )
        corpus = dataclasses.replace(corpus, work_shards=tuple(shards))
    return corpus


def _corpus(name: str, files: list[Path], held_out: float) -> Corpus:
    """The documents of files, each in the split that its hash gives."""
    sizes = [file.stat().st_size for file in files]

    def read(split: str) -> Iterator[Document]:
        earlier = 0  # bytes of the files before this one
        for file, size in zip(files, sizes, strict=True):
            for document in _read_file(file):
                if split_of(document.text, valid=held_out, test=held_out) == split:
                    yield document._replace(amount_read=earlier + document.amount_read)
            earlier += size

    @functools.cache  # since it reads every byte
    def cache_key() -> object:
        contents = [[file.name, _sha256(file)] for file in files]
        return ["files", contents, held_out, MAX_DOCUMENT_BYTES]

    return Corpus(name, read, cache_key, sum(sizes))


def _find_files(name: str) -> list[Path]:
    """The files that a path or a glob names, sorted."""
    path = Path(name).expanduser()
    if path.is_dir():
        found = _files_below(path)
    elif path.is_file():
        found = [path]
    else:
        found = [Path(file) for file in glob.glob(str(path), recursive=True)]
    wrong = [file for file in found if not file.name.endswith(SUFFIXES)]
    if not found or wrong:
        problem = f"{wrong[0]} has an unknown suffix" if wrong else "no such files"
        raise UserError(
            f"data.corpus is {name!r}: {problem}; give embedded, docstrings, "
            f"tfds:NAME, or a file, folder or glob of {', '.join(SUFFIXES)}"
        )
    for file in found:
        if not file.is_file():
            raise UserError(f"{file}: no file, or a link that leads to none")
    return sorted(found)


def _files_below(folder: Path) -> list[Path]:
    """The files of `SUFFIXES` in a folder and its subfolders; tells what is left out.

    Raises:
      UserError: a subfolder cannot be read.
    """

    def refuse(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror})")

    found, links = [], []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        subfolders = (Path(parent, name) for name in folders)
        links += [path for path in subfolders if path.is_symlink()]
        found += [Path(parent, name) for name in names if name.endswith(SUFFIXES)]
    if links:
        print(
            f"{folder}: links to {len(links)} folder(s) are not followed, such as "
            f"{min(links)}; a glob reads them, or data.mixture",
            file=sys.stderr,
        )
    return found


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_file(file: Path) -> Iterator[Document]:
    """The documents of one file; `amount_read` counts its bytes on disk."""
    try:
        with file.open("rb") as raw:
            gz = file.suffix == ".gz"
            lines = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if gz else raw
            suffix = Path(file.name.removesuffix(".gz")).suffix
            for text, label in PARSERS[suffix](_line_feeds(lines)):
                yield Document(text, label, raw.tell())
    except _LineError as error:
        raise UserError(f"{file}:{error.args[0]}: {error.args[1]}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file}: not a complete gzip file ({error})") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error


def _line_feeds(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines; those of a file without line feeds end with carriage returns."""
    for line in lines:
        if line.endswith(b"\n"):
            yield line
        else:
            yield from line.replace(b"\r", b"\n").splitlines(keepends=True)


class _LineError(Exception):
    """The number of a line, and what is wrong with the line."""


def _parse_jsonl(lines: Iterator[bytes]) -> Iterator[tuple[str, str | None]]:
    """(text, label) of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _LineError(number, f"not a JSON object ({error})") from error
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise _LineError(number, 'a line is a JSON object with a string "text"')
        label = row.get("label")
        yield _replace_surrogates(text), None if label is None else str(label)


def _parse_txt(lines: Iterator[bytes]) -> Iterator[tuple[str, None]]:
    """(text, None) of each document; a blank line ends a document."""
    document, size = [], 0
    for number, line in enumerate(lines, 1):
        blank = line.isspace()
        if not blank:
            document.append(_decode(line, number))
            size += len(line)
        if blank or size > MAX_DOCUMENT_BYTES:
            yield "".join(document), None
            document, size = [], 0
    yield "".join(document), None


def _parse_tsv(lines: Iterator[bytes]) -> Iterator[tuple[str, None]]:
    """(both columns as two paragraphs, None) of each line that is not empty."""
    for number, line in enumerate(lines, 1):
        text = _decode(line, number).rstrip("\r\n")
        columns = text.split("\t")
        if len(columns) == 2 and all(column.strip() for column in columns):
            yield "\n".join(columns), None
        elif text:
            raise _LineError(
                number, "a line of parallel text has two columns, separated by a tab"
            )


def _decode(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _LineError(number, f"not UTF-8 ({error.reason})") from error


PARSERS = {".jsonl": _parse_jsonl, ".txt": _parse_txt, ".tsv": _parse_tsv}


def _replace_surrogates(text: str) -> str:
    """The text, with U+FFFD for the lone surrogates that JSON allows."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
