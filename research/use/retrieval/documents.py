"""Named documents to answer from: a folder of texts, or any corpus."""

import sys
from collections.abc import Sequence
from pathlib import Path

from research.contract.errors import UserError
from research.data.source.build import load_corpus
from research.files.paths import files_below, user_path

SUFFIXES = (".txt", ".md")


def read_documents(source: str) -> list[tuple[str, str]]:
    """The names and texts of documents that are not blank.

    Args:
      source: a folder that has .txt or .md files, each of which is a document, named by
        its path in the folder; else a value of `data.corpus`, whose documents are
        numbered. Links out of the folder are left out, since whoever fills the folder
        may not be allowed to read their targets.

    Raises:
      UserError: there is no such folder or corpus, it has no text, or a file is not
        UTF-8.
    """
    folder = Path(user_path(source))
    files = files_below(folder, SUFFIXES) if folder.is_dir() else []
    if files:
        outside = _links_outside(folder, files)
        if outside:
            print(
                f"{folder}: {len(outside)} links that lead out of the folder are left "
                f"out, such as {outside[0]}",
                file=sys.stderr,
            )
        kept = [path for path in files if path not in outside]
        found = [(str(path.relative_to(folder)), _read(path)) for path in kept]
    else:
        corpus = load_corpus(source, 0.0)
        if folder.is_dir() and (outside := _links_outside(folder, corpus.files)):
            raise UserError(f"{outside[0]} leads out of {folder}; copy the file there")
        texts = [
            document.text
            for split in ("train", "valid", "test")
            for document in corpus.documents(split)
        ]
        found = [(f"{source}, {n}", text) for n, text in enumerate(texts, 1)]
    found = [(name, text) for name, text in found if text.strip()]
    if not found:
        raise UserError(f"--documents={source} has no text")
    return found


def _links_outside(folder: Path, files: Sequence[Path]) -> list[Path]:
    """The files whose links lead out of the folder or nowhere."""
    root = folder.resolve()
    paths = ((path, path.resolve()) for path in files)
    return [p for p, to in paths if not (to.is_relative_to(root) and to.is_file())]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")  # keeps line ends as they are
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text in UTF-8 ({error.reason})") from error
