"""A label is the name of the right choice, one of CHOICE_NAMES."""

from dataclasses import dataclass
from itertools import chain

from research.data import label_types
from research.data.documents import CHOICE_NAMES, choice_names, label_key


@dataclass(frozen=True)
class LabelType(label_types.LabelType):
    """Held-out text may name a choice that is never right in the training text."""

    text = "questions whose right choice is known"
    examples = ("A", "B")
    is_closed = False
    texts = label_types.Texts(3, "a question and its choices", "question,choices")

    def problem(self, name):
        if label_key(name) in {*chain(*CHOICE_NAMES)}:
            return ""
        return "is not the number of a choice, counted from 0, nor its letter"

    def check(self, names):
        choice_names(names)

    def no_gold(self, trained, held_out):
        return label_types.NO_GOLD
