"""The labels that a run knows: those of its training text."""

import math
import sys
from collections.abc import Sequence

from research.data.corpora.corpus import LABEL_SEPARATOR, Corpus, single_labels
from research.data.store.example_index import Index
from research.errors import UserError

LABEL_TYPES = ("", "class", "set", "number")
"""What `TextSpec.label` may be: not read; a class; any number of classes; a number."""


def known_labels(
    label_type: str,
    train: Sequence[Index],
    held_out: Sequence[Index],
    evaluated: Sequence[Corpus],
    split: str,
) -> tuple[str, ...]:
    """The names of labels, sorted.

    Args:
      label_type: one of LABEL_TYPES.
      evaluated: the corpora of `held_out`.
      split: that of `evaluated` if it has files of its own, else "": then labels that
        occur in held-out documents alone are known, too.

    Raises:
      UserError: a label of those files is none of the training text's, or no number.
    """
    assert label_type in LABEL_TYPES, label_type
    if label_type:
        _print_unlabelled(train)
    known, found = (
        {name for index in indices for name in index.stream.label_names}
        for indices in (train, held_out)
    )
    if label_type == "number":
        for name in sorted(known | found):
            if not _is_number(name):
                where = _first_with(name, evaluated, split)
                raise UserError(f"{where}label {name!r} is not a number")
    elif label_type and split:
        classes = single_labels(known)
        for name in sorted(found):
            if unknown := set(name.split(LABEL_SEPARATOR)).difference(classes):
                raise UserError(
                    f"{_first_with(name, evaluated, split)}label {min(unknown)!r} is "
                    f"unknown; the training text has {', '.join(classes[:20])}"
                )
    return tuple(sorted(known | found))


def _print_unlabelled(train: Sequence[Index]) -> None:
    """Prints how many rows of training text have no label, if any have none."""
    labels = [index.label for index in train if not index.stream.has_tags]
    missing, total = (
        sum(int((each < 0).sum()) for each in labels),
        sum(map(len, labels)),
    )
    if 0 < missing < total:
        print(
            f"{missing} of {total} rows of training text have no label and are not "
            "trained on",
            file=sys.stderr,
        )


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))
    except ValueError:
        return False


def _first_with(name: str, corpora: Sequence[Corpus], split: str) -> str:
    """Where a label is first, for the beginning of an error."""
    for corpus in corpora:
        for document in corpus.documents(split) if split else ():
            if name == document.label or name in document.tags:
                return f"data.{split}: {document.id}: "
    return ""
