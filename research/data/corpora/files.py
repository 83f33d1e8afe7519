"""Corpora of files: which files, in which format, and the documents of each split."""

import dataclasses
import functools
import glob
import gzip
import hashlib
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

from research.data import work_shards
from research.data.corpora import row_formats, task_formats
from research.data.corpora.corpus import Corpus, Document, split_of
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
COMPRESSIONS = ("", ".gz", ".zst")
SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
"""Of texts: of a folder, files with these are read."""
SUFFIX_FORMATS = {f".{name}": name for name in PARSERS} | {".json": "squad"}
VERSION = 1
"""To be raised when other documents are read from the same files by a `Format`."""


def load_file_corpus(
    name: str, held_out: float | None, fmt: Format = AUTO, key: str = "data.corpus"
) -> Corpus:
    """The corpus of a file, a folder or a glob; with work shards if it is large.

    Args:
      name: the path or glob.
      held_out: the fraction of documents in valid, and again in test; None: every split
        has all documents, since the files are those of one split.
      key: the config key of the name, for errors.

    Raises:
      UserError: there are no such files, or one has an unknown suffix.
    """
    files = _find_files(name, fmt, key)
    corpus = _corpus(name, files, held_out, fmt)
    groups = work_shards.group_files(files)
    if len(groups) > 1:
        shards = (
            _corpus(f"{name}, {number}", group, held_out, fmt)
            for number, group in enumerate(groups, 1)
        )
        corpus = dataclasses.replace(corpus, work_shards=tuple(shards))
    return corpus


def _corpus(
    name: str, files: list[Path], held_out: float | None, fmt: Format
) -> Corpus:
    """The documents of files, each in the split that its hash gives."""
    sizes = [file.stat().st_size for file in files]

    def is_in(split: str, text: str) -> bool:
        return held_out is None or (
            split_of(text, valid=held_out, test=held_out) == split
        )

    def read(split: str) -> Iterator[Document]:
        earlier = 0  # bytes of the files before this one
        for file, size in zip(files, sizes, strict=True):
            for document in _read_file(file, fmt):
                if is_in(split, document.text):
                    yield document._replace(amount_read=earlier + document.amount_read)
            earlier += size

    @functools.cache  # since it reads every byte
    def cache_key() -> object:
        contents = [[file.name, _sha256(file)] for file in files]
        named = [VERSION, *fmt] if fmt != AUTO else []
        return ["files", contents, held_out, MAX_DOCUMENT_BYTES, *named]

    return Corpus(name, read, cache_key, sum(sizes))


def _find_files(name: str, fmt: Format, key: str) -> list[Path]:
    """The files that a path or a glob names, sorted."""
    path = Path(name).expanduser()
    if path.is_dir():
        found = _files_below(path, SUFFIXES if fmt.name == "auto" else "")
    elif path.is_file():
        found = [path]
    else:
        found = [Path(file) for file in glob.glob(str(path), recursive=True)]
    wrong = [file for file in found if not _format_name(file, fmt)]
    if not found or wrong:
        problem = f"{wrong[0]} has an unknown suffix" if wrong else "no such files"
        if wrong and _suffixes(wrong[0])[0] in SUFFIX_FORMATS:
            problem = f"{wrong[0]} needs data.fields, the columns to read"
        raise UserError(
            f"{key} is {name!r}: {problem}; give embedded, docstrings, "
            f"tfds:NAME, or a file, folder or glob of {', '.join(SUFFIXES)}, or name "
            f"the format of others with data.format"
        )
    for file in found:
        if not file.is_file():
            raise UserError(f"{file}: no file, or a link that leads to none")
    return sorted(found)


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


def _suffixes(file: Path) -> tuple[str, str]:
    """The suffix of the format, and that of the compression, if it has one."""
    compression = file.suffix if file.suffix in COMPRESSIONS else ""
    return Path(file.name.removesuffix(compression)).suffix, compression


def _format_name(file: Path, fmt: Format) -> str:
    """The key of the file's parser; "" if there is none."""
    if fmt.name != "auto":
        return fmt.name
    name = SUFFIX_FORMATS.get(_suffixes(file)[0], "")
    return "" if name == "csv" and not fmt.fields else name


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_file(file: Path, fmt: Format) -> Iterator[Document]:
    """The documents of one file; `amount_read` counts its bytes on disk.

    Prints how many rows were left out, if any were.
    """
    parse = PARSERS[_format_name(file, fmt)]
    try:
        with file.open("rb") as raw:
            for document in parse(_decompressed(file, raw), fmt):
                if isinstance(document, SkippedRows):
                    _print_skipped(file, document)
                    continue
                name = file.name if document.id.startswith(":") else ""
                yield document._replace(amount_read=raw.tell(), id=name + document.id)
    except LineError as error:
        raise UserError(f"{file}:{error.args[0]}: {error.args[1]}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file}: not a complete gzip file ({error})") from error
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{file}: cannot be read ({reason})") from error


def _decompressed(file: Path, raw: BinaryIO) -> BinaryIO:
    """The content of a file that is open as `raw`."""
    match file.suffix:
        case ".gz":
            return io.BufferedReader(gzip.GzipFile(fileobj=raw))
        case ".zst":
            import pyarrow  # only where there is such a file

            return io.BufferedReader(pyarrow.input_stream(raw, compression="zstd"))
    return raw


def _print_skipped(file: Path, rows: SkippedRows) -> None:
    what = f"{rows.count} rows, the first at {rows.first}"
    print(f"{file}: {what}: {rows.reason}", file=sys.stderr)
