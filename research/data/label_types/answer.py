"""A label is ANSWERABLE or UNANSWERABLE; the answer is a place in the text."""

from dataclasses import dataclass

from research.data import label_types
from research.data.documents import ANSWERABLE, UNANSWERABLE


@dataclass(frozen=True)
class LabelType(label_types.LabelType):
    """What the format squad gives."""

    text = "questions whose answers are in their contexts, as data.format=squad has"
    examples = (ANSWERABLE, UNANSWERABLE)
    has_column = False
    is_place = True

    def problem(self, name):
        if name in self.examples:
            return ""
        return "is none of a question; set data.format=squad"
