"""Where text comes from: the embedded corpus, files, TFDS; and its three splits."""

import dataclasses
import functools
import glob
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from research.data import work_shards
from research.data.cache import fingerprint
from research.errors import UserError, unknown

SPLITS = ("train", "valid", "test")
SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
LONGEST = 2**20
"""Characters after which a document of a `.txt` file without a blank line is cut."""


class Document(NamedTuple):
    """One document: its text, and its label where it has one."""

    text: str
    label: str | None = None
    read: int = 0  # how much of the corpus was read for it so far, of Corpus.size


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A source of documents, always in the same order."""

    name: str
    read: Callable[[str], Iterator[Document]]  # a split's documents
    made_of: Callable[[], object]  # everything they depend on, as JSON
    size: int = 0  # in the unit of Document.read; 0: not known
    vocabulary_source: "Corpus | None" = None  # whose text trains the vocabulary
    parts: tuple["Corpus", ...] = ()  # those that were joined
    portions: tuple["Corpus", ...] = ()  # of a large one, in order

    def documents(self, split: str) -> Iterator[Document]:
        """The documents of "train", "valid" or "test" that are not blank.

        Raises:
          UserError: an unknown split, or a source that cannot be read.
        """
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        found = self.read(split)
        return (each for each in found if each.text and not each.text.isspace())

    def fingerprint(self) -> str:
        """A hash of everything the documents and their splits depend on."""
        return fingerprint(self.made_of())


def load(name: str, held_out: float) -> Corpus:
    """The corpus that the config key `data.corpus` names.

    A document is held out by the hash of its text, so that copies go together and a
    corpus that grows moves nothing. `held_out` is the share of documents in valid, and
    again in test. Docstrings have shares of their own: see `research.data.corpora.stdlib_corpus`.

    Args:
      name: "embedded"; "docstrings"; a file, folder or glob of `.txt` (a blank line
        ends a document), `.jsonl` (an object a line, with `text`, and `label` where
        documents have one) and `.tsv` (parallel text: two columns a line, which are
        the two paragraphs of a document), each also as `.gz`; or "tfds:NAME", whose own
        test and validation splits are kept where it has them.

    Raises:
      UserError: there is no such corpus, or `held_out` is not in [0, 0.5).
    """
    from research.data.corpora import stdlib_corpus

    if not 0 <= held_out < 0.5:
        raise UserError(
            f"data.held_out is {held_out}; it is a share of documents in [0, 0.5)"
        )
    if name in stdlib_corpus.NAMES:
        return stdlib_corpus.load(name, held_out)
    if name.startswith("tfds:"):
        return _tfds(name, held_out)
    return _from_files(name, held_out)


def join(corpora: Sequence[Corpus]) -> Corpus:
    """All documents of several corpora as one, for what they share (a vocabulary)."""
    if len(corpora) == 1:
        return corpora[0]

    def read(split: str) -> Iterator[Document]:
        for corpus in corpora:
            for document in corpus.documents(split):
                yield document._replace(read=0)

    return Corpus(
        name=" + ".join(corpus.name for corpus in corpora),
        read=read,
        made_of=lambda: [corpus.fingerprint() for corpus in corpora],
        parts=tuple(corpora),
        portions=tuple(each for c in corpora for each in c.portions or (c,)),
    )


def split_of(text: str, *, valid: float, test: float) -> str:
    """The split of a text by its hash; `valid` and `test` are shares."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64
    return "test" if place < test else "valid" if place < test + valid else "train"


def _from_files(name: str, held_out: float) -> Corpus:
    """Files of text, with their portions where there is more than one."""
    files = _find(name)
    whole, groups = _reading(name, files, held_out), work_shards.group(files)
    if len(groups) > 1:
        found = [
            _reading(f"{name}, {n + 1}", g, held_out) for n, g in enumerate(groups)
        ]
        whole = dataclasses.replace(whole, portions=tuple(found))
    return whole


def _reading(name: str, files: list[Path], held_out: float) -> Corpus:
    """Files of text: each document goes to a split of its own."""
    sizes = [file.stat().st_size for file in files]

    def read(split: str) -> Iterator[Document]:
        done = 0
        for file, size in zip(files, sizes, strict=True):
            for document in _read_file(file):
                if split_of(document.text, valid=held_out, test=held_out) == split:
                    yield document._replace(read=done + document.read)
            done += size

    @functools.cache  # for this is a look at every byte
    def made_of() -> object:
        contents = [[file.name, _hash(file)] for file in files]
        return ["files", contents, held_out, LONGEST]

    return Corpus(name, read, made_of, sum(sizes))


def _find(name: str) -> list[Path]:
    """The files that a path or a glob names, in order."""
    path = Path(name).expanduser()
    if path.is_dir():
        found = [file for file in path.rglob("*") if file.name.endswith(SUFFIXES)]
    elif path.is_file():
        found = [path]
    else:
        found = [Path(file) for file in glob.glob(str(path), recursive=True)]
    wrong = [file for file in found if not file.name.endswith(SUFFIXES)]
    if not found or wrong:
        what = f"{wrong[0]} is of no kind it reads" if wrong else "no such files"
        raise UserError(
            f"data.corpus is {name!r}: {what}; it is embedded, docstrings, tfds:NAME, "
            f"or a file, folder or glob of {', '.join(SUFFIXES)}"
        )
    return sorted(found)


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_file(file: Path) -> Iterator[Document]:
    """The documents of one file; `read` counts its bytes on disk."""
    try:
        with file.open("rb") as raw:
            gz = file.suffix == ".gz"
            lines = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if gz else raw
            kind = Path(file.name.removesuffix(".gz")).suffix
            for text, label in PARSERS[kind](lines):
                yield Document(text, label, raw.tell())
    except _LineError as error:
        raise UserError(f"{file}:{error.args[0]}: {error.args[1]}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file}: not a whole gzip file ({error})") from error
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error


class _LineError(Exception):
    """A line's number and what is wrong with it."""


def _json_lines(lines: Iterator[bytes]) -> Iterator[tuple[str, str | None]]:
    """(text, label) of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _LineError(number, f"not a JSON object ({error})") from error
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise _LineError(number, 'a line is a JSON object with a string "text"')
        label = row.get("label")
        yield _valid(text), None if label is None else str(label)


def _paragraphs(lines: Iterator[bytes]) -> Iterator[tuple[str, None]]:
    """(text, None) of the documents that blank lines part."""
    held, size = [], 0
    for number, line in enumerate(lines, 1):
        blank = line.isspace()
        if not blank:
            held.append(_decoded(line, number))
            size += len(line)
        if blank or size > LONGEST:
            yield "".join(held), None
            held, size = [], 0
    yield "".join(held), None


def _columns(lines: Iterator[bytes]) -> Iterator[tuple[str, None]]:
    """(both sides, a paragraph each, None) of each line that is not empty."""
    for number, line in enumerate(lines, 1):
        text = _decoded(line, number).rstrip("\r\n")
        sides = text.split("\t")
        if len(sides) == 2 and not any(not side or side.isspace() for side in sides):
            yield "\n".join(sides), None
        elif text:
            raise _LineError(
                number, "a line of parallel text has two columns, parted by a tab"
            )


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _LineError(number, f"not UTF-8 ({error.reason})") from error


PARSERS = {".jsonl": _json_lines, ".txt": _paragraphs, ".tsv": _columns}


def _valid(text: str) -> str:
    """The text with lone surrogates, which JSON allows, as replacement characters."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _tfds(name: str, held_out: float) -> Corpus:
    """A data set of TensorFlow Datasets that has a feature `text`."""
    try:
        import tensorflow_datasets as tfds

        builder = tfds.builder(name.removeprefix("tfds:"))
        builder.download_and_prepare()
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise UserError(
            f"data.corpus is {name!r}: TensorFlow Datasets cannot give it "
            f"({type(error).__name__}: {reason[:200]})"
        ) from error
    return from_builder(name, builder, held_out)


def from_builder(name: str, builder, held_out: float) -> Corpus:
    """The corpus of a prepared TFDS builder; `label` may be its ClassLabel feature.

    Raises:
      UserError: it has no `text` feature or no train split.
    """
    info = builder.info
    if "text" not in info.features or "train" not in info.splits:
        raise UserError(
            f"data.corpus is {name!r}: it needs a train split and a feature text, but "
            f"has {', '.join(info.splits)} and {', '.join(info.features)}"
        )
    own = {"valid": "validation", "test": "test"}
    own = {split: its for split, its in own.items() if its in info.splits}
    share = {split: 0.0 if split in own else held_out for split in ("valid", "test")}
    names = getattr(dict(info.features.items()).get("label"), "names", ())

    def read(split: str) -> Iterator[Document]:
        rows = builder.as_dataset(split=own.get(split, "train"))
        for row in rows.as_numpy_iterator():
            text = row["text"].decode("utf-8", "replace")
            label = names[row["label"]] if names and row["label"] >= 0 else None
            if split in own or split_of(text, **share) == split:
                yield Document(text, label)

    sizes = {split: info.splits[split].num_examples for split in info.splits}
    return Corpus(name, read, lambda: ["tfds", info.full_name, sizes, held_out])
