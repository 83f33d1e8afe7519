"""A label is the class of a word; each word has one."""

from dataclasses import dataclass

from research.contract.errors import UserError
from research.data import label_types


@dataclass(frozen=True)
class LabelType(label_types.LabelType):
    """The labels of formats with the array `tags`."""

    text = "words with tags, as data.format=conll and conllu have"
    examples = ("O", "B-x", "I-x")
    array = "tags"
    instead = "words with tags; objective token_classification reads such"
    has_column = False

    def check(self, names):
        if len(names) == 1:
            raise UserError(
                f"data.label: all words have the tag {min(names)!r}, but a tagger "
                "needs two tags or more; data.label names their column"
            )
