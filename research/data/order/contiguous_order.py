"""The order of rows that continue from step to step, for objectives with mems."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from research.contract.errors import UserError

# n rows, N examples of an epoch, C corpora


def reads_backward(row: np.ndarray, epoch: np.ndarray) -> np.ndarray:
    """[n] bool: whether a row reads its part backwards, under `TextSpec.reverse`.

    Half of the rows do; they change from epoch to epoch.
    """
    return (row + epoch) % 2 == 1


def contiguous_position(
    step: np.ndarray, row: np.ndarray, *, num_rows: int, num: int, reverse: bool = False
):
    """The examples of contiguous streams: row r of step s + 1 continues that of step s.

    An epoch has num // num_rows steps, so each row reads that many examples in order.
    Up to num_rows - 1 examples are left out: the last ones in even epochs, the first
    ones in odd epochs, so that any two successive epochs together read each example.

    Args:
      step, row: [n] int64; a row is in 0 .. num_rows - 1.
      num_rows: rows of a batch that read this corpus.
      num: N, at least `num_rows`.
      reverse: rows for which `reads_backward` is true read their part from its last
        example to its first.

    Returns:
      epoch, position: [n] int64; positions are in the order of the text.
    """
    assert num >= num_rows > 0
    steps = num // num_rows
    epoch, nth = np.divmod(step, steps)
    nth = np.where(reads_backward(row, epoch) & reverse, steps - 1 - nth, nth)
    return epoch, row * steps + nth + epoch % 2 * (num - num_rows * steps)


class ContiguousRows(NamedTuple):
    """How the rows of a batch are divided among corpora, with `TextSpec.contiguous`."""

    corpus: np.ndarray  # [batch_size] int64
    number: np.ndarray  # [batch_size] int64, index of a row among those of its corpus
    num_rows: np.ndarray  # [C] int64, rows of each corpus


def divide_rows(
    corpus: np.ndarray, number: np.ndarray, sizes: Mapping[str, int]
) -> ContiguousRows:
    """The rows of a batch, divided among corpora.

    Args:
      corpus, number: [batch_size], as the mixture's schedule gives them.
      sizes: name of each corpus -> its number of examples.

    Raises:
      UserError: a corpus has no row, or fewer examples than rows.
    """
    num_rows = np.bincount(corpus, minlength=len(sizes))
    for (name, size), num in zip(sizes.items(), num_rows, strict=True):
        if not 0 < num <= size:
            raise UserError(
                f"train.batch={len(corpus)} gives {num} rows to {name}, which has "
                f"{size} examples; this objective reads contiguous streams, so each "
                "corpus needs at least one row and one example for each row"
            )
    return ContiguousRows(corpus, number, num_rows)
