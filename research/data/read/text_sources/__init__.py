"""Sources of texts: what a name such as SOURCE:NAME stands for, besides your files.

A module here defines a class `Source(text_sources.Source)`. It is found by listing the
folder: nothing else names it.
"""

from pathlib import Path
from typing import ClassVar

from research.contract.parts import Folder
from research.data.read.corpus import Corpus, HeldOut
from research.data.read.formats import FileOptions

FOLDER = Folder("research.data.read.text_sources", "Source", named_by="data.corpus")


class Source:
    """The base of all sources: one of files has `fetch`, any other has `load`."""

    called: ClassVar[str]
    """How its texts are named, for errors, as in "SOURCE:NAME"."""

    is_files: ClassVar[bool]
    """Whether its texts are files, which data.format and data.encoding are about."""

    def __init__(self, name: str):
        self.name = name

    @classmethod
    def is_source(cls, name: str) -> bool:
        """Whether a name belongs to this source, by the prefix before the colon."""
        return name.startswith(cls.called.partition(":")[0] + ":")

    def fetch(self, key: str) -> list[Path]:
        """The files, on this machine.

        Args:
          key: the config key of the name, such as "data.valid".

        Raises:
          UserError: there are none, or they cannot be fetched.
        """
        raise NotImplementedError

    def load(
        self, held_out: HeldOut, options: FileOptions, split: str, key: str
    ) -> Corpus:
        """The corpus.

        Args:
          split: the split whose key names it; "": data.corpus or data.mixture does.
          key: the config key of the name, for errors.

        Raises:
          UserError: there is no corpus of that name, or it cannot be read.
        """
        raise NotImplementedError


def classes() -> list[type[Source]]:
    """All sources, sorted by name."""
    return [FOLDER.part_class(name, "source of texts") for name in FOLDER.names()]


def lines() -> dict[str, str]:
    """Name of each text that is not a file -> what it is."""
    own = {
        cls.called: FOLDER.lines()[cls.__module__.rpartition(".")[2]]
        for cls in classes()
    }
    return {
        "embedded": "Python's docstrings and language reference, a document a module",
        "docstrings": "Python's docstrings, each with its module as label",
        **own,
    }


def source_of(name: str) -> Source | None:
    """The source that a name belongs to; None: local files or an embedded corpus."""
    return next((cls(name) for cls in classes() if cls.is_source(name)), None)
