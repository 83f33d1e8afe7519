"""The labels that a run knows: those of its training text."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from research.contract.errors import UserError
from research.data import label_types
from research.data.documents import (
    LABEL_SEPARATOR,
    Document,
    label_key,
    single_labels,
)
from research.data.label_types import LabelType
from research.data.read.corpus import Corpus
from research.data.store.example_index import Index


class Labels(NamedTuple):
    """The labels of a run's text."""

    known: tuple[str, ...]  # sorted
    no_gold: frozenset[str]  # names in the text that mean "no label"


def known_labels(
    kind: LabelType,
    train: Sequence[Index],
    held_out: Sequence[Index],
    evaluated: Sequence[Corpus],
    split: str,
    column: str,
) -> Labels:
    """The names of the labels that an objective reads.

    Prints how many labels of separate files the training text lacks: all predictions
    for these are wrong. Also prints how many labels mean "no label".

    Args:
      evaluated: the corpora of `held_out`.
      split: the split of `evaluated` if it has separate files; else "", and labels that
        occur only in held-out documents are also known.
      column: data.label, for errors.

    Raises:
      UserError: the training text has no such labels, a label is not of this type,
        the labels are inconsistent, or the training text has none of the labels of the
        separate files.
    """
    known, found = (
        {name for index in indices for name in index.stream.label_names}
        for indices in (train, held_out)
    )
    no_gold = _no_gold(kind, known, found)
    _check_labelled(kind, train, column, no_gold)
    _report_no_gold(held_out, no_gold, split)
    known, found = known - no_gold, found - no_gold
    for name in sorted(known | found):
        if wrong := kind.problem(name):
            where = _first_with(name, kind, evaluated, split)
            labels = name.replace(LABEL_SEPARATOR, ", ")
            raise UserError(f"{where}label {labels!r} {wrong}")
    kind.check(known | found)
    if split and kind.is_closed:
        found -= _unknown_labels(kind, known, found, held_out, evaluated, split)
    return Labels(kind.known(known | found), no_gold)


def _no_gold(
    kind: LabelType, known: Collection[str], found: Collection[str]
) -> frozenset[str]:
    """The names in the training and in the held-out text that mean "no label"."""
    trained, held_out = (
        set(map(label_key, each)) for each in (single_labels(known), found)
    )
    missing = kind.no_gold(trained, held_out)
    return frozenset(name for name in {*known, *found} if label_key(name) in missing)


def _report_no_gold(
    held_out: Sequence[Index], no_gold: Collection[str], split: str
) -> None:
    """Prints how many rows of held-out text have a label that means "no label"."""
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
    """The number of rows whose label is one of `names`."""
    numbers = [n for n, name in enumerate(index.stream.label_names) if name in names]
    return int(np.isin(index.label, numbers).sum())


def class_order(labels: Sequence[str], train: Sequence[Corpus]) -> tuple[str, ...]:
    """The labels in the order of the first data set that has all of them as classes.

    Without one their order is kept; but if there are two and the second negates the
    first, as not_duplicate does duplicate, it comes first. Metrics read this order; a
    classifier's head always has that of the labels.

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
    kind: LabelType,
    known: Collection[str],
    found: Collection[str],
    held_out: Sequence[Index],
    evaluated: Sequence[Corpus],
    split: str,
) -> set[str]:
    """Labels of held-out text that contain one missing in `known`; prints how many.

    Raises:
      UserError: see `known_labels`.
    """
    array = kind.array or "labels"
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
    where, name = _first_with(first, kind, evaluated, split), lacking[first]
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


def is_labelled(kind: LabelType, document: Document) -> bool:
    """Whether a document or its words have a label."""
    if kind.array:
        return kind.array in document.arrays
    return document.label is not None


def _all_types() -> list[LabelType]:
    return [label_types.label_type(name) for name in label_types.FOLDER.names()]


def no_labels(
    kind: LabelType,
    column: str,
    *,
    arrays: Collection[str] = (),
    no_gold: Collection[str] = (),
) -> str:
    """What the training text lacks if no text has a label, and the remedy.

    Args:
      column: data.label.
      arrays: names of the arrays of the text.
      no_gold: labels in the text that mean "no label".
    """
    hint = ""
    if kind.has_column:
        hint = "; data.label names their column"
        if column:
            which = " or ".join(["blank", *sorted(no_gold)])
            hint = f"; data.label={column} is {which} in every row"
        elif found := [t.instead for t in _all_types() if t.array in arrays]:
            hint = f", but {found[0]}"
    return f"{kind.text}{hint}"


def _check_labelled(
    kind: LabelType, train: Sequence[Index], column: str, no_gold: Collection[str]
) -> None:
    """Prints how many rows of training text have no label, if there are any.

    Raises:
      UserError: no row has a label.
    """
    total = sum(len(index.label) for index in train)
    arrays = {name for index in train for name in index.stream.arrays}
    if kind.array:
        missing = total * (kind.array not in arrays)
    else:
        missing = sum(int((index.label < 0).sum()) for index in train)
        missing += sum(map(partial(_count_named, names=no_gold), train))
    if missing == total:
        what = no_labels(kind, column, arrays=arrays, no_gold=no_gold)
        raise UserError(f"the training text has no {what}")
    if missing:
        from research.distributed import processes  # imports JAX

        which = f" (or {' or '.join(sorted(no_gold))})" if no_gold else ""
        processes.print_from_process_0(
            f"{missing} of {total} rows of training text have no label{which} and are "
            "not trained on"
        )


def _first_with(
    name: str, kind: LabelType, corpora: Sequence[Corpus], split: str
) -> str:
    """The first document with a label, for the beginning of an error."""
    for corpus in corpora:
        for document in corpus.documents(split) if split else ():
            if name == document.label or name in document.arrays.get(kind.array, ()):
                return f"data.{split}: {document.id}: "
    return ""
