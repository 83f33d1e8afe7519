"""Parts of regular expressions: words of any script, without a tokenizer.

For `re`, a combining mark, such as a vowel of Hindi, is not a letter, and neither are
the characters that join letters or keep them apart within a word.
"""

import unicodedata

from research.metrics.shared.scripts import SPACELESS

MARKS = "".join(
    character
    for character in map(chr, range(0x300, 0x20000))
    if unicodedata.category(character)[0] == "M"
)
"""All combining marks."""
JOINERS = "\xad\u200c\u200d"
"""Soft hyphen, zero-width non-joiner and joiner."""

_SPACELESS = "".join(f"{chr(first)}-{chr(last)}" for first, last in SPACELESS)
UNIT = rf"(?=\w)[{_SPACELESS}][{MARKS}]*"
"""A letter, with its marks, of a script without spaces between words."""
RUN = rf"[^\W{_SPACELESS}](?:[^\W{_SPACELESS}]|[{MARKS}{JOINERS}])*"
"""Letters, marks, digits and underscores in succession, of other scripts."""
