"""A label is any number of classes, joined by LABEL_SEPARATOR."""

from dataclasses import dataclass

from research.data import label_types
from research.data.documents import LABEL_SEPARATOR


@dataclass(frozen=True)
class LabelType(label_types.LabelType):
    """A vocabulary has the sets; an objective derives the classes from them."""

    text = "documents with labels"
    examples = ("a", f"a{LABEL_SEPARATOR}b", "c")

    def problem(self, name):
        return ""

    def known(self, names):
        return tuple(sorted(names))
