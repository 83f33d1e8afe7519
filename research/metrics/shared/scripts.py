"""Scripts of texts, for metrics of words."""

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

HAN = (
    (0x3005, 0x3007),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x323AF),
)
"""Code points of ideographs."""
SPACELESS = (
    *HAN,
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai
    (0x3040, 0x312F),  # kana, bopomofo
    (0x31F0, 0x31FF),
    (0xA000, 0xA4CF),  # Yi
    (0xFF66, 0xFF9F),  # half-width kana
)
"""Code points of scripts that put no spaces between words."""


class Letters(NamedTuple):
    """How many letters some texts have."""

    all: int
    not_english: int  # other than a to z
    spaceless: int  # of scripts without spaces between words
    han: int  # ideographs


def count_letters(texts: Iterable[str]) -> Letters:
    """The letters of texts, in either case."""
    letters = [each for text in texts for each in text if each.isalpha()]
    others = [each for each in letters if not each.isascii()]
    return Letters(
        len(letters),
        len(others),
        sum(_is_in(each, SPACELESS) for each in others),
        sum(_is_in(each, HAN) for each in others),
    )


def _is_in(letter: str, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= ord(letter) <= last for first, last in ranges)


def words_of(text: str) -> list[str]:
    """The words of a text in any script, lowercased.

    A word is a run of letters, marks and digits; of a script without spaces between
    words it is a letter with its marks.
    """
    words: list[str] = []
    before = ""  # the last word: "run", "letter", or "" if it has ended
    for letter in unicodedata.normalize("NFC", text).lower():
        category = unicodedata.category(letter)[0]
        alone = category != "M" and _is_in(letter, SPACELESS)
        if category not in "LMN":
            before = ""
        elif before and (category == "M" or (before == "run" and not alone)):
            words[-1] += letter
        else:
            words.append(letter)
            before = "letter" if alone else "run"
    return words
