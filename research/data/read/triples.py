"""Triples of a knowledge graph, read from any notation, and their spelling."""

from collections.abc import Iterable, Iterator
from itertools import chain

from research.data.read.notations import Triple, notations


def is_of_triples(first_line: str) -> bool:
    """Whether a file has triples in a notation that `parse_triples` reads."""
    return any(each.recognises(first_line) for each in notations().values())


def parse_triples(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Triple]]:
    """(number, triple) of each numbered line that has one.

    The notation is detected from the first line; if none fits, it is read as tabs.

    Raises:
      ValueError: a line is not a triple; the arguments are its number and the reason.
    """
    lines, known = iter(lines), notations()
    for first in lines:
        found = (each for each in known.values() if each.recognises(first[1]))
        yield from next(found, known["tabs"]).parse(chain([first], lines))


def spell(name: str) -> str:
    """An entity as one word of a vocabulary of words: without white space."""
    return "_".join(name.split())


def spell_relation(name: str) -> str:
    """A relation as one word, different from that of any entity."""
    return f"<{spell(name)}>"
