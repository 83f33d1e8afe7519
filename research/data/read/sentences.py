"""The units (words) of a text, and the rule for where a sentence starts.

A unit is text between white space, also cut after each Chinese full stop; if white
space is kept, it is a unit too. Whether a sentence starts at a unit depends only on
this unit and the last one before it that is not white space, so `sentence_traits` are
computed once per distinct unit.
"""

# U units

import functools
import re

import numpy as np

JOINED, NO_SPACE = "\ud800", "\ud801"
"""Prefixes of units without a space before them: of a unit after a Chinese full stop,
and of any unit if white space is kept. They are lone surrogates, which no text has."""

ENDS, OPENS, BLANK, NEWLINE = 1, 2, 4, 8
"""Bits of a unit's traits: a sentence may end with it; a sentence may start with it; it
is white space; it contains the end of a line."""

_STOPS = "。！？｡"
_CHINESE = re.compile(rf"[^{_STOPS}]*[{_STOPS}]+[”’」』）》\"']*|[^{_STOPS}]+")
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's property White_Space, for a class of characters in a pattern."""
_LITERAL_UNIT = re.compile(
    rf" ([^{_SPACE}]+)|([{_SPACE}]+(?![^{_SPACE}])|[^{_SPACE}]+|[{_SPACE}])"
)
_SINGLE_SPACE = re.compile(rf"(?<=[^{_SPACE}])(?= [^{_SPACE}])")
_UNIT_END = re.compile(rf"[{_SPACE}{_STOPS}]")
_END = re.compile(r"([.!?…]+)[\"'”’»)\]}*_`]*$")
_CHINESE_END = re.compile(rf"[{_STOPS}]+[”’」』）》\"']*$")
_OPENING_MARKS = "\"'“‘«([{*_`¿¡-–—"
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+")  # J. U.S. e.g.
_ABBREVIATION = re.compile(
    "mr|mrs|ms|dr|prof|st|mt|rev|hon|gen|col|lt|sgt|capt|cpt|maj|adm|sen|rep|gov|pres|"
    "vs|etc|al|cf|eg|ie|no|nos|fig|figs|eq|sec|ch|vol|vols|pp|ed|eds|approx|ca|inc|ltd|"
    "co|corp|bros|jr|sr|dept|univ|assn|est|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|"
    "dec",
    re.IGNORECASE,
)


def split_units(paragraph: str, inside: str = "") -> list[str]:
    """The units of one paragraph, in order; " ".join undoes it up to white space.

    Args:
      inside: white space that does not separate units.
    """
    words = paragraph.split()
    if inside and not paragraph.isprintable():
        words = _word(inside).findall(paragraph)
    if paragraph.isascii() or not any(stop in paragraph for stop in _STOPS):
        return words
    units = []
    for word in words:
        first, *rest = _CHINESE.findall(word)
        units.append(first)
        units.extend(JOINED + part for part in rest)
    return units


@functools.cache
def _word(inside: str) -> re.Pattern[str]:
    """Pattern of text between white space other than `inside`."""
    return re.compile(rf"(?:\S|[{re.escape(inside)}])+")


def split_literally(text: str) -> list[str]:
    """The units of a text with all of its white space; joined, they are the text.

    A unit is a word with the space before it, if there is one, or other white space.
    Matches of GPT-2's pattern (openai/gpt-2, src/encoder.py, `pat`) do not cross units,
    so units can be encoded one by one: the last white space character before a word
    belongs to the word if it is a space, else it is a unit. A word is also cut after a
    Chinese full stop if a letter or a digit follows.
    """
    units = [word or NO_SPACE + other for word, other in _LITERAL_UNIT.findall(text)]
    if text.isascii() or not any(stop in text for stop in _STOPS):
        return units
    cut = []
    for unit in units:
        first, *rest = _CHINESE.findall(unit)
        cut.append(first)
        for part in rest:
            if part[0].isalnum():
                cut.append(NO_SPACE + part)
            else:
                cut[-1] += part
    return cut


def split_spans(text: str) -> list[str]:
    """The spans of a text with all of its white space; joined, they are the text.

    It is cut before each single space between two words. A span is one or several
    units of `split_literally`.
    """
    first, *rest = _SINGLE_SPACE.split(text)
    return [NO_SPACE + first, *(span[1:] for span in rest)] if first else []


def split_span(span: str) -> list[str]:
    """The units of a span; joined, they are its text."""
    is_unit = not _UNIT_END.search(span)
    return [span] if is_unit else split_literally(spell_unit(span))


def spell_unit(unit: str) -> str:
    """The text of a unit, with the space before it."""
    return unit[1:] if unit[0] in (JOINED, NO_SPACE) else " " + unit


def sentence_traits(unit: str) -> int:
    """Whether a sentence may end with, and start with, this unit: ENDS | OPENS.

    A sentence starts at a unit with OPENS that follows a unit with ENDS. A unit after a
    Chinese full stop (`JOINED`) always has OPENS. White space has BLANK instead, and
    NEWLINE if a paragraph ends in it.
    """
    if unit.startswith(JOINED):
        return OPENS | _ends(unit[1:])
    unit = unit.removeprefix(NO_SPACE)
    if unit.isspace():
        return BLANK | NEWLINE * ("\n" in unit)
    head = unit[0] if unit[0] not in _OPENING_MARKS else unit.lstrip(_OPENING_MARKS)[:1]
    opens = OPENS if head.isalnum() and not head.islower() else 0
    return opens | _ends(unit)


def span_traits(span: str) -> int:
    """The traits of a span: OPENS of its first word, and ENDS of its last.

    A span has NEWLINE only if it has no word.
    """
    traits = list(map(sentence_traits, split_span(span)))
    words = [each for each in traits if not each & BLANK]
    if not words:
        return BLANK | NEWLINE * any(each & NEWLINE for each in traits)
    return words[0] & OPENS | words[-1] & ENDS


def find_starts(
    traits: np.ndarray, documents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which units start a sentence, and which start a paragraph: [U] bool each.

    A paragraph starts at a document's first unit and at the first word after a line
    end; so does a sentence.

    Args:
      traits: [U], the traits of each unit.
      documents: int64, the units at which documents start.
    """
    word = np.flatnonzero(traits & BLANK == 0)
    before, after = word[:-1], word[1:]
    document = np.searchsorted(documents, word, side="right")
    inside = document[:-1] == document[1:]
    line = np.cumsum(traits & NEWLINE > 0)
    paragraphs = np.zeros(len(traits), bool)
    paragraphs[after[inside & (line[before] < line[after])]] = True
    paragraphs[documents] = True
    starts = paragraphs.copy()
    follows = inside & (traits[before] & ENDS > 0) & (traits[after] & OPENS > 0)
    starts[after[follows]] = True
    return starts, paragraphs


def _ends(unit: str) -> int:
    """ENDS; 0 for a unit without a full stop or with that of an abbreviation."""
    if unit[-1].isalnum():
        return 0
    if _CHINESE_END.search(unit):
        return ENDS
    stop = _END.search(unit)
    if not stop:
        return 0
    if stop[1] != ".":
        return ENDS
    word = unit[: stop.start()].lstrip(_OPENING_MARKS)
    if _ABBREVIATION.fullmatch(word) or _INITIALS.fullmatch(word + "."):
        return 0
    return ENDS
