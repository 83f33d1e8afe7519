"""A label is a class, one of those of the training text."""  # noqa: N999

import re
from dataclasses import dataclass

from research.contract.notices import report
from research.data import label_types


@dataclass(frozen=True)
class LabelType(label_types.LabelType):
    """Each label in NO_GOLD may also be a class."""

    text = "documents with labels"
    examples = ("a", "b", "c")

    def no_gold(self, trained, held_out):
        """See the base.

        "-" means no label if there are two or more other classes, none of them "+". -1
        does if there are three or more other classes, counted from 0 or 1, and no class
        of the training text is negative. In -1, 0, 1 it may be a class: reported.
        """
        classes, missing = {*trained} - label_types.NO_GOLD, set()
        if len(classes) > 1 and "+" not in classes:
            missing.add("-")
        counted = [{*map(str, range(n, n + len(classes)))} for n in (0, 1)]
        if "-1" not in trained:
            is_negative = any(re.fullmatch(r"-\d+", name) for name in classes)
            missing |= set() if is_negative else {"-1"}
        elif classes in counted and len(classes) > 2:
            missing.add("-1")
        elif classes in counted and len(classes) == 2:
            report(
                "label '-1' is read as a class, next to "
                f"{' and '.join(sorted(classes))}; leave out the rows whose -1 says "
                "that they have no label"
            )
        return missing
