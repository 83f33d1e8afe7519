"""The labels that a run knows: those of its training text."""

import math
import sys
from collections.abc import Sequence

from research.data.corpora.corpus import Corpus
from research.data.documents import (
    ANSWERABLE,
    LABEL_SEPARATOR,
    UNANSWERABLE,
    single_labels,
)
from research.data.store.example_index import Index
from research.errors import UserError

LABEL_TYPES = {
    "class": "documents with labels; data.label names their column",
    "set": "documents with labels; data.label names their column",
    "number": "documents with numbers; data.label names their column",
    "choice": "questions whose right choice is known; data.label names its column",
    "answer": "questions whose answers are in their contexts; set data.format=squad",
    "tags": "words with tags; set data.format=conll or conllu",
}
"""Type of labels (`TextSpec.label`) -> the text that has them. A label is a class; any
number of classes; a number; the number or the name of a choice; ANSWERABLE or
UNANSWERABLE; a class of each word."""


def known_labels(
    label_type: str,
    train: Sequence[Index],
    held_out: Sequence[Index],
    evaluated: Sequence[Corpus],
    split: str,
) -> tuple[str, ...]:
    """The names of the labels that an objective reads, sorted.

    Args:
      label_type: one of LABEL_TYPES.
      evaluated: the corpora of `held_out`.
      split: the split of `evaluated` if it has separate files, else "": then labels
        that occur only in held-out documents are also known.

    Raises:
      UserError: the training text has no such labels, a label is not of this type, or
        the separate files have a label that the training text lacks.
    """
    _check_labelled(label_type, train)
    known, found = (
        {name for index in indices for name in index.stream.label_names}
        for indices in (train, held_out)
    )
    for name in sorted(known | found):
        if wrong := _what_is_wrong(name, label_type):
            where = _first_with(name, evaluated, split)
            labels = name.replace(LABEL_SEPARATOR, ", ")
            raise UserError(f"{where}label {labels!r} {wrong}")
    if split and label_type != "number":
        classes = single_labels(known)
        for name in sorted(found):
            if unknown := set(name.split(LABEL_SEPARATOR)).difference(classes):
                raise UserError(
                    f"{_first_with(name, evaluated, split)}label {min(unknown)!r} is "
                    f"unknown; the training text has {', '.join(classes[:20])}"
                )
    return tuple(sorted(known | found))


def _check_labelled(label_type: str, train: Sequence[Index]) -> None:
    """Prints how many rows of training text have no label, if there are any.

    Raises:
      UserError: no row has a label.
    """
    total = sum(len(index.label) for index in train)
    if label_type == "tags":
        missing = total * (not any("tags" in index.stream.arrays for index in train))
    else:
        missing = sum(int((index.label < 0).sum()) for index in train)
    if missing == total:
        raise UserError(f"the training text has no {LABEL_TYPES[label_type]}")
    if missing:
        print(
            f"{missing} of {total} rows of training text have no label and are not "
            "trained on",
            file=sys.stderr,
        )


def _what_is_wrong(name: str, label_type: str) -> str:
    """Why a label is not of this type; "" if it is."""
    if label_type == "number" and not _is_number(name):
        return "is not a number"
    if label_type == "choice" and _is_number(name) and not name.isdigit():
        return "is not the number of a choice, counted from 0"
    if label_type == "answer" and name not in (ANSWERABLE, UNANSWERABLE):
        return "is none of a question; set data.format=squad"
    if label_type != "set" and LABEL_SEPARATOR in name:
        return "is several; objective.task=multi of sequence_classification reads such"
    return ""


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def _first_with(name: str, corpora: Sequence[Corpus], split: str) -> str:
    """The first document with a label, for the beginning of an error."""
    for corpus in corpora:
        for document in corpus.documents(split) if split else ():
            if name == document.label or name in document.arrays.get("tags", ()):
                return f"data.{split}: {document.id}: "
    return ""
