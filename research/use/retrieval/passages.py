"""Documents cut into passages and sentences, with the characters that they have."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from research.data.read import sentences

WORDS, STRIDE = 100, 50
"""Words of a passage (Karpukhin et al. 2020, section 4.1), and from one to the next."""
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = "".join(
    character
    for character in map(chr, range(0x300, 0x20000))
    if unicodedata.category(character).startswith("M")
    and character not in "\u3099\u309a"  # of Japanese
)
"""Combining marks, such as the vowels of Hindi, which are no letters to `re`."""
_LETTERS = rf"[^\W_{_CJK}]+(?:[{_MARKS}][^\W_{_CJK}]*)*"
_WORD = re.compile(rf"[{_CJK}]|{_LETTERS}")
_RUN = re.compile(rf"([{_CJK}]+)|{_LETTERS}")


class Passage(NamedTuple):
    """A part of a document: its characters [start, end)."""

    text: str
    document: str  # the document's name
    start: int
    end: int


def cut_document(name: str, text: str) -> Iterator[Passage]:
    """The passages of a document, each of `WORDS` words, or Chinese characters."""
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
    """What a text is found by.

    These are its words in lower case; of Chinese and Japanese, which have no spaces,
    each character and each two neighbours.
    """
    found = []
    for run in _RUN.finditer(unicodedata.normalize("NFKC", text).lower()):
        word = run[0]
        if not run[1]:
            found.append(word)
            continue
        found += [*word, *(word[n : n + 2] for n in range(len(word) - 1))]
    return found
