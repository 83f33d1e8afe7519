"""Documents: texts with labels, answers and arrays."""

import dataclasses
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from research.contract.errors import UserError
from research.contract.fields import check, choice

ANSWERABLE, UNANSWERABLE = "answerable", "unanswerable"
"""Labels of questions; a question whose answer is not at its offset has no label."""

LABEL_SEPARATOR = "\x1f"
"""Separates the labels of a document with several."""

CHOICE_NAMES = (
    tuple(map(str, range(1000))),
    tuple(string.ascii_uppercase),
    tuple(string.ascii_lowercase),
)
"""What labels call the choices of a question, the first to the last."""


_WHOLE_NUMBER = re.compile(r"(-?\d+)\.0+")


def label_key(label: str) -> str:
    """A key that equal labels share: 1 and 1.0 are one class."""
    found = _WHOLE_NUMBER.fullmatch(label)
    return found[1] if found else label


def single_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The single labels in documents' labels, sorted; the shortest of equal ones.

    An empty list of labels adds none.
    """
    found: dict[str, str] = {}
    names = {each for label in labels for each in label.split(LABEL_SEPARATOR)}
    for name in sorted(names - {""}):
        found.setdefault(label_key(name), name)
    return tuple(found.values())


def as_known(label: str, known: Sequence[str]) -> str:
    """The label in the spelling of the known ones; an unknown label is unchanged."""
    if label in known:
        return label
    equal = (each for each in known if label_key(each) == label_key(label))
    return next(equal, label)


def choice_names(labels: Iterable[str]) -> Sequence[str]:
    """The names of choices in order: the entry of CHOICE_NAMES that has all labels.

    Raises:
      UserError: no entry has all of them.
    """
    keys = set(map(label_key, labels))
    for names in CHOICE_NAMES:
        if keys <= {*names}:
            return names
    raise UserError(
        "labels of choices must all be numbers from 0, letters from A, or letters from "
        f"a; got {', '.join(sorted(keys)[:20])}"
    )


@dataclasses.dataclass(frozen=True)
class ArrayType:
    """An array that a format provides with the text of each document."""

    per: str = choice("token", ("token", "part", "document"))  # what has a value. A
    # document gives one for each character, of which a token has that of its first
    # one; for each of its parts; or one alone
    dtype: Any = np.int32  # of a value; str: a name, which counts as a label. A
    # document's value may be an array: (np.float32, (4, 8)) is NumPy's type of those

    def __post_init__(self):
        """Raises ValueError: values are arrays, and not of documents or of one dim."""
        check(self)
        if self.stored.shape and (
            self.per != "document" or len(self.stored.shape) == 1
        ):
            raise ValueError(
                f"dtype {self.dtype} per {self.per}: only a document's value is an "
                "array, which has at least two dims (a vector is 1 x F)"
            )

    @property
    def stored(self) -> np.dtype:
        """The type of what is stored; of names it is that of indices of labels."""
        return np.dtype(np.int32 if self.dtype is str else self.dtype)


NAMES = ArrayType("part", str)
TAGS = {"tags": NAMES}
"""The array of formats whose parts, which are words, have labels."""


class Document(NamedTuple):
    """A text; for an example of a task also its parts, label and answer.

    The parts of an example, such as two sentences or the words of one, are joined to
    one text, so every corpus and every store consists of texts.
    """

    text: str
    label: str | None = None  # several are joined by LABEL_SEPARATOR; "": of an
    # empty list
    amount_read: int = 0  # of the corpus so far, in the unit of Corpus.size
    starts: tuple[int, ...] = ()  # characters at which the parts after the first start
    answer: tuple[int, int] | None = None  # characters of the answer: first, last + 1
    golds: tuple[str, ...] = ()  # texts of all answers that are right
    id: str = ""  # its name in predictions: FILE:LINE, or the question's id
    arrays: Mapping[str, Any] = MappingProxyType({})  # values of Corpus.arrays


def join_parts(parts: Sequence[str], separator: str) -> Document:
    """The document made of these parts, none of which is blank."""
    starts, end = [], 0
    for part in parts:
        starts.append(end)
        end += len(part) + len(separator)
    return Document(separator.join(parts), starts=tuple(starts[1:]))


def document_parts(document: Document) -> tuple[str, ...]:
    """The texts that `join_parts` has joined by one character."""
    begins = (0, *document.starts)
    ends = (*(start - 1 for start in document.starts), len(document.text))
    pairs = zip(begins, ends, strict=True)
    return tuple(document.text[begin:end] for begin, end in pairs)
