"""The labels that a run knows: those of its training text."""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from research.contract.errors import UserError
from research.contract.notices import report
from research.data.documents import (
    ANSWERABLE,
    CHOICE_NAMES,
    LABEL_SEPARATOR,
    UNANSWERABLE,
    Document,
    choice_names,
    label_key,
    single_labels,
)
from research.data.read.corpus import Corpus
from research.data.store.example_index import Index

LABEL_TYPES = {
    "class": "documents with labels",
    "set": "documents with labels",
    "number": "documents with numbers",
    "choice": "questions whose right choice is known",
    "answer": "questions whose answers are in their contexts, as data.format=squad has",
    "tags": "words with tags, as data.format=conll and conllu have",
}
"""Type of labels (`TextSpec.label`) -> the text that has them. A label is a class; any
number of classes; a number; the name of a choice, one of CHOICE_NAMES; ANSWERABLE or
UNANSWERABLE; a class of each word."""


NO_GOLD = ("-", "-1")
"""Labels by which data sets say that there is none: SNLI's files, where annotators do
not agree, and copies of data sets at Hugging Face, also of whole test splits."""

MAX_NUMBER = 1e18
"""The largest absolute value of a label that is a number."""


class Labels(NamedTuple):
    """The labels of a run's text."""

    known: tuple[str, ...]  # sorted
    no_gold: frozenset[str]  # names in the text that say that there is no label


def known_labels(
    label_type: str,
    train: Sequence[Index],
    held_out: Sequence[Index],
    evaluated: Sequence[Corpus],
    split: str,
    column: str,
) -> Labels:
    """The names of the labels that an objective reads.

    Prints how many labels of separate files the training text lacks: whatever is
    predicted there is wrong. Also prints how many say that there is no label.

    Args:
      label_type: one of LABEL_TYPES.
      evaluated: the corpora of `held_out`.
      split: the split of `evaluated` if it has separate files, else "": then labels
        that occur only in held-out documents are also known.
      column: data.label, for errors.

    Raises:
      UserError: the training text has no such labels, a label is not of this type,
        some labels of choices are numbers and others letters, all words have one tag,
        or the training text has none of those of the separate files.
    """
    known, found = (
        {name for index in indices for name in index.stream.label_names}
        for indices in (train, held_out)
    )
    no_gold = _no_gold(label_type, known, found)
    _check_labelled(label_type, train, column, no_gold)
    _report_no_gold(held_out, no_gold, split)
    known, found = known - no_gold, found - no_gold
    for name in sorted(known | found):
        if wrong := _what_is_wrong(name, label_type):
            where = _first_with(name, evaluated, split)
            labels = name.replace(LABEL_SEPARATOR, ", ")
            raise UserError(f"{where}label {labels!r} {wrong}")
    if label_type == "tags" and len(known | found) == 1:
        raise UserError(
            f"data.label: all words have the tag {min(known)!r}, but a tagger needs "
            "two tags or more; data.label names their column"
        )
    if label_type == "choice":
        choice_names(known | found)
    elif split and label_type != "number":
        found -= _unknown_labels(label_type, known, found, held_out, evaluated, split)
    if label_type in ("number", "set"):
        return Labels(tuple(sorted(known | found)), no_gold)
    return Labels(single_labels(known | found), no_gold)


def _no_gold(
    label_type: str, known: Collection[str], found: Collection[str]
) -> frozenset[str]:
    """The names that say that there is no label.

    "-" does next to two classes or more, unless one is "+". -1 does next to three
    classes or more that are counted from 0 or 1, if no class of the training text is
    negative, and of numbers if held-out text has no other. Of -1, 0 and 1 it may be a
    class, which is reported.

    Args:
      known, found: the names in the training and in the held-out text.
    """
    names = {name for name in {*known, *found} if label_key(name) in NO_GOLD}
    trained, held_out = (
        set(map(label_key, each)) for each in (single_labels(known), found)
    )
    classes = trained - {*NO_GOLD}
    missing = set()
    if label_type == "choice":
        missing = {*NO_GOLD}
    elif label_type == "number":
        missing = {"-1"} if held_out == {"-1"} and "-1" not in trained else set()
    elif label_type == "class":
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
    return frozenset(name for name in names if label_key(name) in missing)


def _report_no_gold(
    held_out: Sequence[Index], no_gold: Collection[str], split: str
) -> None:
    """Prints how many rows of held-out text have a label that says there is none."""
    count = sum(map(partial(_count_named, names=no_gold), held_out))
    if count:
        from research.distributed import processes  # imports JAX

        total = sum(int((index.label >= 0).sum()) for index in held_out)
        processes.print_from_process_0(
            f"{count} of {total} labels of {f'data.{split}' if split else 'held-out'} "
            f"text are {' or '.join(sorted(no_gold))}, which is none: these rows are "
            "not scored"
        )


def _count_named(index: Index, names: Collection[str]) -> int:
    """How many rows have a label of some names."""
    numbers = [n for n, name in enumerate(index.stream.label_names) if name in names]
    return int(np.isin(index.label, numbers).sum())


def class_order(labels: Sequence[str], train: Sequence[Corpus]) -> tuple[str, ...]:
    """The labels in the order of their data set, the first that has all as classes.

    Without one they stay as they are, but if the second of two is the first with a
    negation before it, as not_duplicate is of duplicate, it comes first. Metrics read
    this order; a classifier's head has that of the labels, in every run.

    Args:
      labels: `known_labels`.
      train: the corpora of the training text.
    """
    for corpus in train:
        if {*labels} <= {*corpus.classes}:
            return tuple(sorted(labels, key=corpus.classes.index))
    if len(labels) == 2:
        first, second = labels
        negated = rf"(no|non|not|un)[\W_]*{re.escape(first)}"
        if re.fullmatch(negated, second, re.IGNORECASE):
            return second, first
    return tuple(labels)


def _unknown_labels(
    label_type: str,
    known: Collection[str],
    found: Collection[str],
    held_out: Sequence[Index],
    evaluated: Sequence[Corpus],
    split: str,
) -> set[str]:
    """The labels of held-out text that have one which `known` lacks; prints how many.

    Raises:
      UserError: see `known_labels`.
    """
    array = "tags" if label_type == "tags" else "labels"
    counts: Counter[str] = Counter()
    for stream in (index.stream for index in held_out):
        if array in {"labels", *stream.arrays}:
            names = stream.label_names
            number = zip(names, stream.count_labels(array), strict=True)
            counts.update({name: count for name, count in number if name in found})
    classes = single_labels(known)
    keys = set(map(label_key, classes))
    lacking = {
        name: min(missing)
        for name in counts
        if (missing := set(map(label_key, single_labels([name]))) - keys)
    }
    if not lacking:
        return set()
    first = min(lacking, key=lacking.__getitem__)
    where, name = _first_with(first, evaluated, split), lacking[first]
    wrong, total = sum(counts[each] for each in lacking), counts.total()
    if wrong == total:
        raise UserError(
            f"{where}label {name!r} is unknown; the training text has "
            f"{', '.join(classes[:20])}"
        )
    from research.distributed import processes  # imports JAX

    processes.print_from_process_0(
        f"{where}label {name!r} is unknown to the training text, as are {wrong} of "
        f"{total} labels of this split; what is predicted there counts as wrong"
    )
    return set(lacking)


def is_labelled(label_type: str, document: Document) -> bool:
    """Whether a document has a label, or the tags that are its labels."""
    if label_type == "tags":
        return "tags" in document.arrays
    return document.label is not None


def no_labels(
    label_type: str, column: str, *, has_tags: bool, no_gold: Collection[str] = ()
) -> str:
    """The text that the training text lacks, if none has a label, and the remedy.

    Args:
      column: data.label.
      has_tags: whether words have tags.
      no_gold: labels in the text that say that there is none.
    """
    hint = ""
    if label_type not in ("answer", "tags"):
        hint = "; data.label names their column"
        if column:
            which = " or ".join(["blank", *sorted(no_gold)])
            hint = f"; data.label={column} is {which} in every row"
        elif has_tags:
            hint = ", but words with tags; objective token_classification reads such"
    return f"{LABEL_TYPES[label_type]}{hint}"


def _check_labelled(
    label_type: str, train: Sequence[Index], column: str, no_gold: Collection[str]
) -> None:
    """Prints how many rows of training text have no label, if there are any.

    Raises:
      UserError: no row has a label.
    """
    total = sum(len(index.label) for index in train)
    has_tags = any("tags" in index.stream.arrays for index in train)
    if label_type == "tags":
        missing = total * (not has_tags)
    else:
        missing = sum(int((index.label < 0).sum()) for index in train)
        missing += sum(map(partial(_count_named, names=no_gold), train))
    if missing == total:
        options = {"has_tags": has_tags, "no_gold": no_gold}
        what = no_labels(label_type, column, **options)
        raise UserError(f"the training text has no {what}")
    if missing:
        from research.distributed import processes  # imports JAX

        which = f" (or {' or '.join(sorted(no_gold))})" if no_gold else ""
        processes.print_from_process_0(
            f"{missing} of {total} rows of training text have no label{which} and are "
            "not trained on"
        )


def _what_is_wrong(name: str, label_type: str) -> str:
    """Why a label is not of this type; "" if it is."""
    if label_type == "number" and not _is_number(name):
        return "is not a number"
    if label_type == "number" and abs(float(name)) > MAX_NUMBER:
        return f"is beyond {MAX_NUMBER:g}, and float32 does not hold its square"
    if label_type == "choice" and label_key(name) not in {*chain(*CHOICE_NAMES)}:
        return "is not the number of a choice, counted from 0, nor its letter"
    if label_type == "answer" and name not in (ANSWERABLE, UNANSWERABLE):
        return "is none of a question; set data.format=squad"
    if label_type != "set" and (not name or LABEL_SEPARATOR in name):
        what = "several" if name else "an empty list"
        return f"is {what}; objective.task=multi of sequence_classification reads such"
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
