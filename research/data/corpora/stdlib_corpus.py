"""The embedded corpus: the documentation of Python's own standard library.

"embedded" has one document a module (its docstrings) and one a language topic.
"docstrings" has one document a docstring, labelled by the module it documents.

A docstring is held out by a hash of its own in both, in shares of its own, so that what
is held out in "docstrings" is in no training text of "embedded".
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

from research.data.corpora.files import Corpus, Document, split_of

NAMES = ("embedded", "docstrings")
VALID, TEST = 0.05, 0.25
"""Shares of the docstrings that are held out, whatever `data.held_out` says."""
NUM_CLASSES = 24
"""The modules with the most docstrings are the classes."""
LARGEST_CLASS = 256
"""Docstrings of a class at most; those of the smallest hash stay."""
FEWEST_WORDS = 8
"""A docstring of fewer words says too little to be classified."""
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
_LEFT_OUT |= {"idlelib", "lib2to3", "turtledemo", "pydoc_data", "__pycache__"}


class Docstring(NamedTuple):
    """A docstring, cleaned, and the dotted name of the module it stands in."""

    module: str
    text: str


def load(name: str, held_out: float) -> Corpus:
    """One of `NAMES`; `held_out` is the share of language topics in valid and test."""

    def made_of() -> object:
        rule = [VALID, TEST, NUM_CLASSES, LARGEST_CLASS, FEWEST_WORDS]
        return [name, _sources(), held_out, rule]

    if name == "embedded":
        return Corpus(name, lambda split: _modules(split, held_out), made_of)
    return Corpus(
        name,
        _labelled,
        made_of,
        vocabulary_source=load("embedded", held_out),
    )


@functools.cache
def _sources() -> list[str]:
    """The Python that reads the sources, and a hash of them."""
    digest = hashlib.sha256()
    for file in _files():
        digest.update(file.read_bytes())
    digest.update(repr(topics()).encode())
    return [platform.python_version(), digest.hexdigest()]


def _files() -> list[Path]:
    """The source files of the standard library, tests left out."""
    found = []
    for folder, inner, names in os.walk(sysconfig.get_path("stdlib")):
        inner[:] = set(inner) - _LEFT_OUT
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


@functools.cache
def docstrings() -> tuple[Docstring, ...]:
    """Every docstring of the standard library, read from source, nothing imported."""
    library = Path(sysconfig.get_path("stdlib"))
    found = []
    for file in _files():
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue  # templates that are no Python
        parts = file.relative_to(library).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        found += [Docstring(module, text) for text in _docstrings(tree)]
    return tuple(found)


def _docstrings(tree: ast.Module) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and text.strip():
            yield inspect.cleandoc(text).encode("utf-8", "replace").decode()


def topics() -> tuple[str, ...]:
    """The topics of the language reference, by name."""
    from pydoc_data.topics import topics as by_name

    return tuple(text for _, text in sorted(by_name.items()))


def docstring_split(text: str) -> str:
    """The split of a docstring, in both corpora: by its first line, case aside.

    So near-copies (overridden methods, say) are on the same side.
    """
    summary = text.split("\n", 1)[0].lower().strip(" .:")
    return split_of(summary, valid=VALID, test=TEST)


def _modules(split: str, held_out: float) -> Iterator[Document]:
    """One document a module: those of its docstrings that are of the split; topics."""
    by_module = collections.defaultdict(dict)  # a dict keeps each text once, in order
    for module, text in docstrings():
        if docstring_split(text) == split:
            by_module[module][text] = None
    for texts in by_module.values():
        yield Document("\n\n".join(texts))
    for text in topics():
        if split_of(text, valid=held_out, test=held_out) == split:
            yield Document(text)


@functools.cache
def labelled() -> dict[str, tuple[str, ...]]:
    """The docstrings of each class: a top-level public module.

    A text that documents two classes is left out.
    """
    owners = collections.defaultdict(set)
    for module, text in docstrings():
        if len(text.split()) >= FEWEST_WORDS:
            owners[text].add(module.split(".")[0])
    classes = collections.defaultdict(list)
    for text, modules in owners.items():
        (module, *others) = modules
        if not others and not module.startswith("_"):
            classes[module].append(text)
    largest = sorted(classes, key=lambda name: (-len(classes[name]), name))
    return {
        name: tuple(sorted(classes[name], key=_digest)[:LARGEST_CLASS])
        for name in largest[:NUM_CLASSES]
    }


def _labelled(split: str) -> Iterator[Document]:
    """The labelled docstrings of a split, classes mixed."""
    rows = [(text, name) for name, texts in labelled().items() for text in texts]
    for text, name in sorted(rows, key=lambda row: _digest(row[0])):
        if docstring_split(text) == split:
            yield Document(text, name)


def _digest(text: str) -> bytes:
    """An order that knows nothing of the text (and is not the one of the splits)."""
    return hashlib.sha256(text.encode()).digest()
