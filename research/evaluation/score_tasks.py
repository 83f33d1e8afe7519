"""Tasks judged by the scores of texts: minimal pairs, choices, last words."""

import collections
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from research.contract.errors import UserError, unknown
from research.contract.parts import PartTable
from research.data.documents import Document, document_parts
from research.data.read.files import load_file_corpus
from research.data.read.formats import FileOptions
from research.evaluation.score_tables import CHOICES, LAST_WORDS, TEXTS, Item, Judge


def _check(legal: bool, document: Document, problem: str) -> None:
    if not legal:
        raise UserError(f"{document.id}: {problem}")


def _pair(document: Document) -> Item:
    parts = document_parts(document)
    _check(len(parts) == 2, document, "a pair has two texts")
    return Item(document.id, document.label or "", parts, ("", ""), 0)


def _passage(document: Document) -> Item:
    parts = document_parts(document)
    _check(len(parts) == 2, document, "a passage has a context and a last word")
    return Item(document.id, "", parts[1:], parts[:1], 0)


def _middle(document: Document) -> Item:
    parts = document_parts(document)
    _check(len(parts) == 3, document, "has a prefix, a middle and a suffix")
    prefix, middle, suffix = parts
    return Item(document.id, "", (middle,), (prefix,), -1, suffix)


def _sentence(document: Document) -> Item:
    label = document.label
    _check(label in (None, "0", "1"), document, "its label is neither 0 nor 1")
    gold = -1 if label is None else int(label)
    return Item(document.id, "", (document.text,), ("",), gold)


def _choices(document: Document) -> Item:
    """A text, then its continuations."""
    parts, gold = document_parts(document), _right_choice(document)
    number = len(parts) - 1
    return Item(document.id, "", parts[1:], parts[:1] * number, gold)


def _contexts(document: Document) -> Item:
    """A continuation, then its contexts."""
    parts, gold = document_parts(document), _right_choice(document)
    return Item(document.id, "", parts[:1] * (len(parts) - 1), parts[1:], gold)


def _right_choice(document: Document) -> int:
    number, label = len(document_parts(document)) - 1, document.label
    _check(number > 1, document, "has fewer than two choices")
    legal = label is not None and label.isdecimal() and int(label) < number
    _check(legal, document, f"its label {label!r} is none of its {number} choices")
    return int(label)


class Task(NamedTuple):
    """How a task's files are read and judged."""

    judge: Judge
    fields: tuple[str, ...]  # columns or keys, as config.data.fields; (): the text
    label: str  # the column of the group, the right choice or the acceptability
    read: Callable[[Document], Item]  # raises UserError
    line: str  # what it is, for users
    example: Mapping[str, Any]  # a row of its files, for the laws
    list_first: bool = False  # the first field has the list, which files have last


PAIR = ("sentence_good", "sentence_bad")
CATS = {"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps."}
TASKS = {
    "blimp": Task(
        CHOICES,
        PAIR,
        "UID",
        _pair,
        "minimal pairs by paradigm (Warstadt et al. 2020)",
        CATS | {"UID": "agreement"},
    ),
    "zorro": Task(
        CHOICES,
        PAIR,
        "UID",
        _pair,
        "minimal pairs of frequent words (Huebner et al. 2021)",
        CATS | {"UID": "agreement"},
    ),
    "pairs": Task(
        CHOICES,
        PAIR,
        "",
        _pair,
        "pairs of texts in sentence_good and sentence_bad, of which the first is "
        "right; --label names groups",
        CATS,
    ),
    "choices": Task(
        CHOICES,
        ("query", "choices"),
        "gold",
        _choices,
        "a text and its continuations; the label is the number of the right one",
        {"query": "The man drank", "choices": ["tea.", "wood."], "gold": 1},
    ),
    "schema": Task(
        CHOICES,
        ("context_options", "continuation"),
        "gold",
        _contexts,
        "contexts of one continuation (Winograd schemas), which alone is scored",
        {"context_options": ["He so he", "He so I"], "continuation": "won.", "gold": 0},
        list_first=True,
    ),
    "lambada": Task(
        LAST_WORDS,
        ("context", "continuation"),
        "",
        _passage,
        "the last word of a passage (Paperno et al. 2016)",
        {"context": "A cup of", "continuation": "tea"},
    ),
    "infilling": Task(
        TEXTS,
        ("prefix", "middle", "suffix"),
        "",
        _middle,
        "the middle of a text, given what is before it and, unless the method scores "
        "from left to right, after it",
        {"prefix": "A cup", "middle": "of", "suffix": "tea"},
    ),
    "sentences": Task(
        TEXTS,
        (),
        "",
        _sentence,
        "texts by themselves; with a label of 0 or 1 (acceptability), the area under "
        "the ROC curve",
        {"text": "Cats sleep."},
    ),
}
PICTURE_TASKS = {"retrieval": "captions of pictures, and pictures of captions"}
"""Task whose items are captions of pictures, which a run ranks -> its line."""


def task_lines() -> dict[str, str]:
    """Name of each task -> what it is."""
    return {name: task.line for name, task in TASKS.items()} | PICTURE_TASKS


LISTED = PartTable("Tasks of scores", "score --task", task_lines())


def read_items(
    name: str, files: str, fields: Sequence[str] = (), label: str = ""
) -> tuple[list[Item], str]:
    """The items of a task's files, and the hash of the files.

    Args:
      name: one of TASKS.
      files: a file, folder or glob, in any format of `data.corpus`.
      fields, label: columns or keys in place of the task's own.

    Raises:
      UserError: there are no such files or columns, or a label that is not legal.
    """
    task = TASKS[name]
    fields = tuple(fields) or task.fields
    if task.list_first:
        fields = fields[::-1]
    fmt = FileOptions("auto", fields, label or task.label)
    try:
        corpus = load_file_corpus(files, None, fmt, "--data")
        items = [task.read(document) for document in corpus.documents("test")]
    except UserError as error:
        flags = str(error).replace("data.fields", "--fields")
        raise UserError(flags.replace("data.label", "--label")) from error
    if not items:
        raise UserError(f"--data={files} has no items")
    return items, corpus.fingerprint()


def chosen_items(
    items: Sequence[Item], groups: Sequence[str], limit: int
) -> list[Item]:
    """The first items of each group.

    Args:
      groups: patterns of the groups' names, e.g. *agreement*; (): all groups.
      limit: most items per group; 0: all.

    Raises:
      UserError: a pattern matches no group.
    """
    names = list(dict.fromkeys(item.group for item in items))
    for pattern in groups:
        if not fnmatch.filter(names, pattern):
            raise unknown("--groups", pattern, names)
    counts: collections.Counter[str] = collections.Counter()
    chosen = []
    for item in items:
        if groups and not any(fnmatch.fnmatch(item.group, each) for each in groups):
            continue
        counts[item.group] += 1
        if not limit or counts[item.group] <= limit:
            chosen.append(item)
    return chosen


def check_labels(name: str, items: Sequence[Item]) -> None:
    """Checks before scoring that a task's texts have both labels or none.

    Raises:
      UserError: all labelled texts have the same label.
    """
    labels = {item.gold for item in items if item.gold >= 0}
    if TASKS[name].judge.both_labels and len(labels) == 1:
        raise UserError(
            f"all texts have the label {labels.pop()}, and the area under the ROC "
            "curve needs texts of both, 0 and 1; --fields=COLUMN without --label reads "
            "texts without labels"
        )
