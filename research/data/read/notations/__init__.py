"""Notations of the triples of a knowledge graph: each module reads one.

A module here defines a frozen dataclass `Notation(notations.Notation)` without fields.
It is found by listing this folder: nothing else names it.
"""

import abc
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from research.contract.parts import Folder

FOLDER = Folder("research.data.read.notations", "Notation")


class Triple(NamedTuple):
    """The names of two entities, and of the relation from the first to the second."""

    head: str
    relation: str
    tail: str


class Notation(abc.ABC):
    """The base of all notations."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Of files that are read as triples without data.format."""

    example: ClassVar[str]
    """A file of the triples (0, 2, 1) and (1, 3, 0), for the laws."""

    @abc.abstractmethod
    def recognises(self, first_line: str) -> bool:
        """Whether a file that begins with this line is in this notation, not in others.

        The line may be any text: `data.lexicon` may also be a list of words.
        """

    @abc.abstractmethod
    def parse(self, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Triple]]:
        """(number, triple) of numbered lines, the first one included.

        Blank lines are skipped.

        Raises:
          ValueError: a line is not a triple; arguments: its number and the reason.
        """


def notations() -> dict[str, Notation]:
    """All notations, by name."""
    return {name: FOLDER.part_class(name, "notation")() for name in FOLDER.names()}


def three(number: int, line: str, columns: Sequence[str], form: str) -> list[str]:
    """The three names in the columns of a line, stripped of white space.

    Args:
      form: the format of a line, for the error.

    Raises:
      ValueError: they are not three, or one is blank.
    """
    names = [column.strip() for column in columns]
    if len(names) != 3 or not all(names):
        raise ValueError(
            number, f"a triple is {form}; got {len(names)} columns: {line[:40]!r}"
        )
    return names
