"""A label is a number."""

import math
from dataclasses import dataclass

from research.data import label_types

MOST = 1e18
"""The largest absolute value."""


@dataclass(frozen=True)
class LabelType(label_types.LabelType):
    """Held-out text may have other numbers than the training text."""

    text = "documents with numbers"
    examples = ("-1.5", "0", "2")
    is_closed = False

    def problem(self, name):
        if not _is_number(name):
            return "is not a number"
        if abs(float(name)) > MOST:
            return f"is beyond {MOST:g}, and float32 does not hold its square"
        return ""

    def no_gold(self, trained, held_out):
        """See the base: -1 means no label if held-out text has no other number."""
        hides = {*held_out} == {"-1"} and "-1" not in trained
        return {"-1"} if hides else ()

    def known(self, names):
        return tuple(sorted(names))


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False
