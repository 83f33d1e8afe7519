"""Triples of a knowledge graph, as files have them: head, relation and tail."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Triple(NamedTuple):
    """Names of two entities, and of the relation from the first to the second."""

    head: str
    relation: str
    tail: str


def is_of_triples(first_line: str) -> bool:
    """Whether a file has triples, in a notation that `parse_triples` reads."""
    return first_line.count("\t") == 2 or first_line.strip().isdecimal()


def parse_triples(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Triple]]:
    """(number, triple) of each numbered line that is not blank.

    A line is head<TAB>relation<TAB>tail. In OpenKE's files (thunlp/OpenKE, benchmarks)
    the first line is the number of triples, and others are head, tail and relation
    between white space.

    Raises:
      ValueError: a line is no triple; the arguments are its number and the reason.
    """
    openke, expected, count = False, 0, 0
    for number, line in lines:
        if number == 1 and line.strip().isdecimal():
            openke, expected = True, int(line)
            continue
        if not line.strip():
            continue
        columns = line.split() if openke else line.rstrip("\r\n").split("\t")
        names = [column.strip() for column in columns]
        if len(names) != 3 or not all(names):
            form = "head tail relation" if openke else "head<TAB>relation<TAB>tail"
            raise ValueError(
                number, f"a triple is {form}; got {len(names)} columns: {line[:40]!r}"
            )
        head, second, third = names
        count += 1
        yield number, Triple(head, third, second) if openke else Triple(*names)
    if openke and count != expected:
        raise ValueError(1, f"the file has {count} triples, and not {expected}")


def spell(name: str) -> str:
    """An entity as one word of a vocabulary of words: without white space."""
    return "_".join(name.split())


def spell_relation(name: str) -> str:
    """A relation as one word, which is that of no entity."""
    return f"<{spell(name)}>"
