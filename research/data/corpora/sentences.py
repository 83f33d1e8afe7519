"""The units (words) of a text, and the rule for where a sentence starts.

A unit is text between white space, cut again after each Chinese full stop. Whether a
sentence starts at a unit depends only on that unit and the one before it, so both
answers can be computed once per distinct unit: see `sentence_traits`.
"""

import re

JOINED = "\x1f"
"""Prefix of a unit that no white space separates from the unit before it."""

ENDS, OPENS = 1, 2
"""Bits of a unit's traits: a sentence may end with it; a sentence may start with it."""

_STOPS = "。！？｡"
_CHINESE = re.compile(rf"[^{_STOPS}]*[{_STOPS}]+[”’」』）》\"']*|[^{_STOPS}]+")
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


def split_units(paragraph: str) -> list[str]:
    """The units of one paragraph, in order; " ".join undoes it up to white space."""
    words = paragraph.split()
    if paragraph.isascii() or not any(stop in paragraph for stop in _STOPS):
        return words
    units = []
    for word in words:
        first, *rest = _CHINESE.findall(word)
        units.append(first)
        units.extend(JOINED + part for part in rest)
    return units


def sentence_traits(unit: str) -> int:
    """Whether a sentence may end with, and start with, this unit: ENDS | OPENS.

    A sentence starts at a unit with OPENS that follows a unit with ENDS. A unit after a
    Chinese full stop (`JOINED`) always has OPENS.
    """
    if unit.startswith(JOINED):
        return OPENS | _ends(unit[1:])
    head = unit[0] if unit[0] not in _OPENING_MARKS else unit.lstrip(_OPENING_MARKS)[:1]
    opens = OPENS if head.isalnum() and not head.islower() else 0
    return opens | _ends(unit)


def _ends(unit: str) -> int:
    """ENDS; 0 for a unit without a stop or with the stop of an abbreviation."""
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
