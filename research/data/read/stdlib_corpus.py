"""The embedded corpora: the documentation of Python's own standard library.

"embedded" has one document per module (its docstrings) and one per topic of the
language reference. "docstrings" has one document per docstring, labelled by the module
that it documents.

In both, a docstring is held out by the hash of its first line, with the fractions
below, so what "docstrings" holds out is not in the training text of "embedded".
"""

import ast
import collections
import functools
import hashlib
import inspect
import os
import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from research.data import cache
from research.data.documents import Document
from research.data.read.corpus import Corpus, HeldOut, held_out_fractions, split_of

VALID_FRACTION, TEST_FRACTION = 0.05, 0.25
"""Fractions of the docstrings that are held out, whatever `data.held_out` is."""
NUM_CLASSES = 24
"""Number of classes, which are the modules with the most docstrings."""
MAX_DOCSTRINGS_PER_CLASS = 256
"""The most docstrings of a class, which keeps those with the smallest hashes."""
MIN_WORDS = 8
"""The fewest words of a docstring that can be classified."""
_EXCLUDED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
_EXCLUDED_FOLDERS |= {"idlelib", "lib2to3", "turtledemo", "pydoc_data", "__pycache__"}


class Docstring(NamedTuple):
    """A cleaned docstring, and the dotted name of the module that contains it."""

    module: str
    text: str


def modules_corpus(name: str, held_out: HeldOut) -> Corpus:
    """The corpus "embedded".

    Args:
      held_out: the fraction of language topics in valid, and again in test.
    """
    fingerprint = functools.partial(_fingerprint, name, held_out)
    return Corpus(name, lambda split: _modules(split, held_out), fingerprint)


def docstrings_corpus(name: str, held_out: HeldOut) -> Corpus:
    """The corpus "docstrings"; `held_out` is that of "embedded"."""
    return Corpus(
        name,
        lambda split: _labelled_documents(split, held_out),
        functools.partial(_fingerprint, name, held_out),
        vocabulary_source=modules_corpus("embedded", held_out),
    )


def _fingerprint(name: str, held_out: HeldOut) -> str:
    rules = [VALID_FRACTION, TEST_FRACTION, NUM_CLASSES]
    rules += [MAX_DOCSTRINGS_PER_CLASS, MIN_WORDS]
    return cache.fingerprint([name, _source_version(), held_out, rules])


@functools.cache
def _source_version() -> list[str]:
    """The version of Python, which parses the sources, and their hash."""
    digest = hashlib.sha256()
    for file in _source_files():
        digest.update(file.read_bytes())
    digest.update(repr(language_topics()).encode())
    return [platform.python_version(), digest.hexdigest()]


def _source_files() -> list[Path]:
    """The source files of the standard library without its tests, sorted."""
    found = []
    for folder, inner, names in os.walk(sysconfig.get_path("stdlib")):
        inner[:] = set(inner) - _EXCLUDED_FOLDERS
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


@functools.cache
def docstrings() -> tuple[Docstring, ...]:
    """Every docstring of the standard library, parsed from source without imports."""
    library = Path(sysconfig.get_path("stdlib"))
    found = []
    for file in _source_files():
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue  # a template that is not Python
        parts = file.relative_to(library).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        found += [Docstring(module, text) for text in _docstrings_of(tree)]
    return tuple(found)


def _docstrings_of(tree: ast.Module) -> Iterator[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        if text and text.strip():
            yield inspect.cleandoc(text).encode("utf-8", "replace").decode()


def language_topics() -> tuple[str, ...]:
    """The texts of the language reference's topics, sorted by name."""
    from pydoc_data.topics import topics

    return tuple(text for _, text in sorted(topics.items()))


def docstring_split(text: str) -> str:
    """The split of a docstring, in both corpora: by its first line, ignoring case.

    So near-copies (overridden methods, for example) are in the same split.
    """
    summary = text.split("\n", 1)[0].lower().strip(" .:")
    return split_of(summary, valid=VALID_FRACTION, test=TEST_FRACTION)


def _modules(split: str, held_out: HeldOut) -> Iterator[Document]:
    """One document per module, of its docstrings in the split; then the topics."""
    by_module = collections.defaultdict(dict)  # a dict keeps each text once, in order
    for module, text in docstrings():
        if docstring_split(text) == split:
            by_module[module][text] = None
    for texts in by_module.values():
        yield Document("\n\n".join(texts))
    for text in _topics(split, held_out):
        yield Document(text)


def _topics(split: str, held_out: HeldOut) -> list[str]:
    of_split = functools.partial(split_of, **held_out_fractions(held_out))
    return [text for text in language_topics() if of_split(text) == split]


@functools.cache
def labelled_docstrings() -> dict[str, tuple[str, ...]]:
    """The docstrings of each class; a class is a top-level public module.

    A text that documents objects of two modules is left out.
    """
    owners = collections.defaultdict(set)
    for module, text in docstrings():
        if len(text.split()) >= MIN_WORDS:
            owners[text].add(module.split(".")[0])
    classes = collections.defaultdict(list)
    for text, modules in owners.items():
        (module, *others) = modules
        if not others and not module.startswith("_"):
            classes[module].append(text)
    largest = sorted(classes, key=lambda name: (-len(classes[name]), name))
    return {
        name: tuple(sorted(classes[name], key=_sha256)[:MAX_DOCSTRINGS_PER_CLASS])
        for name in largest[:NUM_CLASSES]
    }


def _labelled_documents(split: str, held_out: HeldOut) -> Iterator[Document]:
    """The labelled docstrings of a split, with the classes shuffled.

    Held-out ones that also occur in a topic of the training text, as one of pdb does in
    Python 3.13, are left out.
    """
    labelled = labelled_docstrings()
    topics = [] if split == "train" else _topics("train", held_out)
    read = " ".join(" ".join(text.split()) for text in topics)
    rows = [(text, name) for name, texts in labelled.items() for text in texts]
    for text, name in sorted(rows, key=lambda row: _sha256(row[0])):
        if docstring_split(text) == split and " ".join(text.split()) not in read:
            yield Document(text, name)


def _sha256(text: str) -> bytes:
    """A sort key that is independent of the content and of the hash of the splits."""
    return hashlib.sha256(text.encode()).digest()
