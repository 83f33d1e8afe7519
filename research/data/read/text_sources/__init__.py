"""Sources of texts: what a name stands for that is none of your files.

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
    """How its texts are named, for errors, as in "SOURCE:NAME"; or its only text."""

    is_files: ClassVar[bool]
    """Whether its texts are files, which data.format and data.encoding are about."""

    is_built_in: ClassVar[bool] = False
    """True: its text is on every machine and has all splits. Only data.corpus and
    data.mixture name it."""

    language: ClassVar[str] = ""
    """The language of all of its texts; "": they may have any."""

    def __init__(self, name: str):
        self.name = name

    @classmethod
    def is_source(cls, name: str) -> bool:
        """Whether a name belongs to this source, by the prefix before a colon."""
        prefix, colon, _ = cls.called.partition(":")
        return name.startswith(prefix + colon) if colon else name == cls.called

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
    """How the texts of each source are named -> what they are."""
    lines = FOLDER.lines().values()
    return {cls.called: line for cls, line in zip(classes(), lines, strict=True)}


def source_of(name: str, *, built_in: bool = False) -> Source | None:
    """The source that a name belongs to; None: local files.

    Args:
      built_in: whether the key of the name also takes sources that are built in.
    """
    own = (cls for cls in classes() if built_in or not cls.is_built_in)
    return next((cls(name) for cls in own if cls.is_source(name)), None)
