"""Named documents to answer from: a folder of texts, or any corpus."""

from pathlib import Path

from research.contract.errors import UserError
from research.data.source.build import load_corpus
from research.files.paths import user_path

SUFFIXES = (".txt", ".md")


def read_documents(source: str) -> list[tuple[str, str]]:
    """The names and texts of documents that are not blank.

    Args:
      source: a folder that has .txt or .md files, each of which is a document, named by
        its path in the folder; else what `data.corpus` may name, whose documents are
        numbered.

    Raises:
      UserError: there is no such folder or corpus, it has no text, or a file is no
        UTF-8.
    """
    folder = Path(user_path(source))
    files = sorted(
        path
        for path in (folder.rglob("*") if folder.is_dir() else ())
        if path.suffix in SUFFIXES and path.is_file()
    )
    if files:
        found = [(str(path.relative_to(folder)), _read(path)) for path in files]
    else:
        corpus = load_corpus(source, 0.0)
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


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")  # ends of lines as they are
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text in UTF-8 ({error.reason})") from error
