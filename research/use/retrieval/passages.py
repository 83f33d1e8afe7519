"""Documents cut into passages and sentences, with their character offsets."""

import itertools
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from research.data.read import sentences
from research.data.read.word_patterns import JOINERS, RUN, UNIT

WORDS, STRIDE = 100, 50
"""Words of a passage (Karpukhin et al. 2020, section 4.1), and from one to the next."""
_UNIT, _JOINER = re.compile(UNIT), re.compile(f"[{JOINERS}]")
_WORD = re.compile(rf"{UNIT}|{RUN}")
_RUN = re.compile(rf"((?:{UNIT})+)|{RUN}")


class Passage(NamedTuple):
    """A part of a document: its characters [start, end)."""

    text: str
    document: str  # the document's name
    start: int
    end: int


def cut_document(name: str, text: str) -> Iterator[Passage]:
    """The passages of a document, each of `WORDS` words, or letters for Chinese."""
    begins = [found.start() for found in _WORD.finditer(text)]
    for first in range(0, max(1, len(begins)), STRIDE):
        last = first + WORDS >= len(begins)
        start = begins[first] if first else 0
        end = len(text) if last else begins[first + WORDS]
        whole = text[start:end]
        start += len(whole) - len(whole.lstrip())
        if stripped := whole.strip():
            yield Passage(stripped, name, start, start + len(stripped))
        if last:
            return


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The characters [start, end) of each sentence; a blank line ends one, too."""
    spans: list[tuple[int, int]] = []
    position, may_end = 0, False
    for unit in sentences.split_units(text):
        surface = unit.removeprefix(sentences.JOINED)
        begin = text.index(surface, position)
        traits = sentences.sentence_traits(unit)
        is_new = may_end and traits & sentences.OPENS
        if not spans or is_new or text.count("\n", position, begin) > 1:
            spans.append((begin, begin))
        position = begin + len(surface)
        spans[-1] = spans[-1][0], position
        may_end = bool(traits & sentences.ENDS)
    return spans


def terms(text: str) -> list[str]:
    """The terms by which a text is found.

    These are its words in lower case; for Chinese, Japanese, Thai and others without
    spaces between words, each letter and each pair of neighbours.
    """
    text, found = unicodedata.normalize("NFKC", text).lower(), []
    for run in _RUN.finditer(_JOINER.sub("", text).replace("_", " ")):
        letters = _UNIT.findall(run[0]) if run[1] else [run[0]]
        found += [*letters, *map("".join, itertools.pairwise(letters))]
    return found
