"""Entity linking by names: at each word, the longest name of a graph's entities."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from research.contract.errors import UserError
from research.data.read.lexicon import read_rows
from research.data.read.word_patterns import RUN, UNIT

_WORDS = """
a an the it its he his she her they them we us you i me my who what which this that
these those one two three first second new old all any some no not and or but if as at
by for from in into of off on out over to up with is are was were be been am do did does
has have had will would can could may might must shall should january february march
april june july august september october november december monday tuesday wednesday
thursday friday saturday sunday
"""
STOP_WORDS = frozenset(_WORDS.split())
"""Names of one word that name an entity less often than they are words of the text."""

_UNIT = re.compile(rf"{UNIT}|{RUN}|[^\w\s]")
"""A letter of a script without spaces between words, other letters and digits in
succession, or any other character."""


class Name(NamedTuple):
    """A name and the entities that have it, the most probable first."""

    text: str
    entities: tuple[str, ...]
    priors: tuple[float, ...]  # of each entity; they add up to 1


class Link(NamedTuple):
    """A mention in a text."""

    begin: int  # its first character
    end: int
    name: int  # index of `Linker.names`


class Linker:
    """Finds names in texts: from left to right, the longest one at each word.

    Attributes:
      names: those that are linked.
      num_stopped: names that are left out because they are stop words or too short.
    """

    def __init__(
        self,
        names: Iterable[Name],
        *,
        stop: Iterable[str] = STOP_WORDS,
        min_characters: int = 2,
        ignore_case: bool = False,
    ):
        self._fold = str.casefold if ignore_case else str
        stop, names = {word.casefold() for word in stop}, list(names)
        self.names = [
            name
            for name in names
            if len(name.text) >= min_characters and name.text.casefold() not in stop
        ]
        self.num_stopped = len(names) - len(self.names)
        self._by_units: dict[tuple[str, ...], int] = {}
        self._lengths: dict[str, set[int]] = {}
        for number, name in enumerate(self.names):
            units = tuple(self._fold(unit) for unit in _UNIT.findall(name.text))
            if units and units not in self._by_units:
                self._by_units[units] = number
                self._lengths.setdefault(units[0], set()).add(len(units))

    def find(self, text: str) -> list[Link]:
        """The mentions of a text, which do not overlap."""
        found = [(m.start(), m.end(), self._fold(m[0])) for m in _UNIT.finditer(text)]
        units = [unit for *_, unit in found]
        links, at = [], 0
        while at < len(units):
            size = 0
            for length in sorted(self._lengths.get(units[at], ()), reverse=True):
                name = self._by_units.get(tuple(units[at : at + length]))
                if name is not None and at + length <= len(units):
                    links.append(Link(found[at][0], found[at + length - 1][1], name))
                    size = length
                    break
            at += size or 1
        return links


def read_names(
    path: Path, *, end: str = "", degrees: Mapping[str, int] | None = None
) -> list[Name]:
    """The names of a file of lines entity<TAB>name or entity<TAB>name<TAB>weight.

    An entity with several names has several lines. The priors of entities that share a
    name are proportional to their weights or, without weights, to 1 + the number of
    their triples.

    Args:
      end: a name is cut where this begins, e.g. ", " before a gloss; "": never.
      degrees: entity -> number of triples; names of other entities are ignored. None:
        no names are ignored.

    Raises:
      UserError: a line is malformed.
    """
    weights: dict[str, dict[str, float]] = {}
    for number, columns in read_rows(path, "--names"):
        try:
            entity, text, *weight = columns
            value = float(*weight) if weight else 1 + (degrees or {}).get(entity, 0)
        except (ValueError, TypeError):
            value = -1
        if value < 0:
            raise UserError(
                f"{path}:{number}: must be entity<TAB>name or "
                "entity<TAB>name<TAB>weight"
            )
        name = (text.split(end)[0] if end else text).strip()
        if name and (degrees is None or entity in degrees):
            of_name = weights.setdefault(name, {})
            of_name[entity] = max(value, of_name.get(entity, 0))
    return [_make_name(text, found) for text, found in weights.items()]


def _make_name(text: str, weights: Mapping[str, float]) -> Name:
    ordered = sorted(weights, key=lambda entity: (-weights[entity], entity))
    total = sum(weights.values()) or 1
    return Name(text, tuple(ordered), tuple(weights[e] / total for e in ordered))


class Counts(NamedTuple):
    """What was linked."""

    texts: int
    words: int
    mentions: int
    names: int  # distinct
    ambiguous_names: int  # with several entities
    ambiguous_mentions: int
    most_frequent: Sequence[tuple[str, int]]

    def __str__(self) -> str:
        rate = 1000 * self.mentions / max(1, self.words)
        common = ", ".join(f"{name} {count}" for name, count in self.most_frequent)
        return (
            f"{self.texts:,} texts of {self.words:,} words: {self.mentions:,} mentions "
            f"({rate:.1f} per 1,000 words) of {self.names:,} names; "
            f"{self.ambiguous_names:,} names and {self.ambiguous_mentions:,} mentions "
            f"have several entities. Most frequent: {common or 'none'}"
        )


def link_texts(
    linker: Linker, texts: Iterable[str], counts: list[Counts]
) -> Iterator[list[Link]]:
    """The links of each text; at the end appends the totals to `counts`."""
    of_name: Counter[int] = Counter()
    num_texts = num_words = 0
    for text in texts:
        links = linker.find(text)
        of_name.update(link.name for link in links)
        num_texts += 1
        num_words += len(text.split())
        yield links
    ambiguous = [n for n in of_name if len(linker.names[n].entities) > 1]
    common = itertools.islice(of_name.most_common(), 10)
    counts.append(
        Counts(
            num_texts,
            num_words,
            of_name.total(),
            len(of_name),
            len(ambiguous),
            sum(of_name[n] for n in ambiguous),
            [(linker.names[n].text, count) for n, count in common],
        )
    )
