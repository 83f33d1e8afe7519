"""A stream's data besides text: flags of parts and answers, and formats' arrays."""

# T tokens, D documents of a batch

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from research.contract.batch import ANSWER_END, ANSWER_START, PART, no_value
from research.contract.errors import UserError, unknown
from research.data.documents import ArrayType, Document
from research.data.tokenize.token_offsets import (
    first_token_at,
    first_token_of_each,
    last_token_at,
    token_offsets,
)
from research.data.tokenize.vocabulary import Vocabulary


def annotate(
    flags: np.ndarray,
    first: np.ndarray,
    batch: Sequence[Document],
    vocabulary: Vocabulary,
    types: Mapping[str, ArrayType],
    label_numbers: dict[str, int],
    *,
    lines: bool = False,
) -> dict[str, np.ndarray]:
    """Adds the flags of parts and answers, and returns the arrays of `types`.

    Arrays of documents are [D] or [D, *shape], those of tokens [T], and those of parts
    [T] with the values at the first tokens of parts. A part without any token after
    tokenization has neither a flag nor a value. Separators have none.

    Args:
      flags: [T] uint8, changed in place.
      first: [D], the token at which each document starts.
      label_numbers: label -> number, which receives new labels.
      lines: a separator ends each line of a document.

    Raises:
      UserError: a document has the wrong number of values, or values of another type.
    """
    sizes = {"document": len(batch), "part": len(flags), "token": len(flags)}
    arrays = {
        name: np.full(sizes[each.per], no_value(each.stored), each.stored)
        for name, each in types.items()
    }
    for number, (begin, document) in enumerate(zip(first.tolist(), batch, strict=True)):
        if not (document.starts or document.answer or document.arrays):
            continue
        offsets = token_offsets(document.text, vocabulary)
        place = begin + np.arange(len(offsets.begin))
        if lines:
            place += _line_ends_before(document.text, offsets.begin)
        part = first_token_of_each(offsets, np.array([0, *document.starts]))
        here = part >= 0
        flags[place[part[1:][here[1:]]]] |= PART
        if document.answer and len(place):
            character, end = document.answer
            flags[place[first_token_at(offsets, character)]] |= ANSWER_START
            flags[place[last_token_at(offsets, end - 1)]] |= ANSWER_END
        for name, values in document.arrays.items():
            if name not in types:
                raise unknown(f"array of {document.id}", name, types)
            found = _values(name, values, types[name], document, label_numbers)
            if types[name].per == "document":
                arrays[name][number] = found
            elif types[name].per == "part":
                arrays[name][place[part[here]]] = found[here]
            else:
                arrays[name][place] = found[offsets.begin]
    return arrays


def _line_ends_before(text: str, character: np.ndarray) -> np.ndarray:
    """[T] int64: the number of line ends before each of some characters [T]."""
    ends = [place for place, each in enumerate(text) if each == "\n"]
    return np.searchsorted(ends, character)


def _values(
    name: str,
    values: Any,
    array_type: ArrayType,
    document: Document,
    label_numbers: dict[str, int],
) -> np.ndarray:
    """The values of a document's array, as stored.

    Raises:
      UserError: see `annotate`.
    """
    owners = {
        "document": (array_type.stored.shape, "the document"),
        "part": ((1 + len(document.starts),), "each part"),
        "token": ((len(document.text),), "each character"),
    }
    needed, owner = owners[array_type.per]
    if array_type.dtype is str and array_type.per == "document":
        values = label_number(label_numbers, values)
    elif array_type.dtype is str:
        values = [label_number(label_numbers, each) for each in values]
    try:
        found, dtype = np.asarray(values), array_type.stored.base
    except ValueError as error:  # rows of several lengths
        raise UserError(f"{document.id}: array {name}: {error}") from error
    if dtype.kind == "f":
        is_legal = found.dtype.kind in "biuf"
    else:
        is_legal = found.dtype.kind in "biu" and (found.astype(dtype) == found).all()
    if found.shape != needed or not is_legal:
        raise UserError(
            f"{document.id}: array {name} is {found.dtype}{[*found.shape]}, not "
            f"{dtype}{[*needed]} with a value for {owner}"
        )
    return found.astype(dtype)


def label_number(numbers: dict[str, int], label: str | None) -> int:
    """The number of a label; a new label gets the next one; -1: no label."""
    return -1 if label is None else numbers.setdefault(label, len(numbers))
