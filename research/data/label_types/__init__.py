"""Types of labels: what a label of the text is, by the name in `TextSpec.label`.

A module here defines a frozen dataclass `LabelType(label_types.LabelType)` without
fields. It is found by listing this folder: nothing else names it.
"""

from collections.abc import Collection
from typing import ClassVar, NamedTuple

from research.contract.parts import Folder
from research.data.documents import LABEL_SEPARATOR, single_labels

FOLDER = Folder("research.data.label_types", "LabelType")

NO_GOLD = frozenset({"-", "-1"})
"""Labels by which data sets say that there is none: SNLI's files, where annotators do
not agree, and copies of data sets at Hugging Face, also of whole test splits."""


class Texts(NamedTuple):
    """The minimum of texts that an example has."""

    count: int
    words: str  # as errors have them: "two parts"
    fields: str  # an example of data.fields


class LabelType:
    """The base of all types: a label is one name, with any spelling."""

    text: ClassVar[str]
    """The text that has such labels, as errors have it: "documents with labels"."""

    examples: ClassVar[tuple[str, ...]]
    """Three labels of one data set, or all that there are, for the laws."""

    array: ClassVar[str] = ""
    """The array with a label of each word; "": a document has one label."""

    instead: ClassVar[str] = ""
    """What an error says of a text with this array and no label of another type."""

    has_column: ClassVar[bool] = True
    """Whether data.label names the column of the labels."""

    is_closed: ClassVar[bool] = True
    """Whether what is predicted for a label that the training text lacks is wrong."""

    is_place: ClassVar[bool] = False
    """Whether it is said of places in the text, which then has no tokens between its
    lines."""

    texts: ClassVar[Texts | None] = None
    """The texts that each example needs; None: as its objective says."""

    def problem(self, name: str) -> str:
        """Why a label is not of this type; "" if it is."""
        if name and LABEL_SEPARATOR not in name:
            return ""
        what = "several" if name else "an empty list"
        return f"is {what}; objective.task=multi of sequence_classification reads such"

    def check(self, names: Collection[str]) -> None:
        """Checks the labels of a run's text together.

        Raises:
          UserError: they are not consistent with each other.
        """

    def no_gold(
        self, trained: Collection[str], held_out: Collection[str]
    ) -> Collection[str]:
        """The labels that mean "no label".

        Args:
          trained: the single labels of the training text, as their `label_key`.
          held_out: the labels of held-out text, likewise.
        """
        return ()

    def known(self, names: Collection[str]) -> tuple[str, ...]:
        """The labels that a vocabulary has, from those of the text: sorted."""
        return single_labels(names)


def label_type(name: str) -> LabelType:
    """The label type with this name."""
    return FOLDER.part_class(name, "type of labels")()
