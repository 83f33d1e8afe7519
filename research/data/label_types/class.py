"""A label is a class, one of those of the training text."""  # noqa: N999

import re
from dataclasses import dataclass

from research.contract.notices import report
from research.data import label_types


@dataclass(frozen=True)
class LabelType(label_types.LabelType):
    """Of NO_GOLD each may also be a class."""

    text = "documents with labels"
    examples = ("a", "b", "c")

    def no_gold(self, trained, held_out):
        """See the base.

        "-" says so next to two classes or more, unless one is "+". -1 does next to
        three classes or more that are counted from 0 or 1, if no class of the training
        text is negative. Of -1, 0 and 1 it may be a class, which is reported.
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
