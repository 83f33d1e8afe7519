"""Batches of texts of like lengths: which rows they have, and how long they are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from research.data.loading.permutation import permute
from research.data.loading.text_source import TextSource
from research.errors import UserError

# n rows, N examples, S steps of a window, B rows of a batch

STEPS_PER_WINDOW = 64
"""Steps whose rows are divided by length. With more, fewer batches have rows of two
buckets; a text moves by less than so many steps from where it would be otherwise."""


class LengthBuckets:
    """Divides the rows of a `TextSource` into batches of several lengths.

    The steps are divided into windows. The rows of a window, which are those of its
    steps without buckets, are sorted by bucket, the shortest length that holds a text,
    and cut into batches; the batches of the window are shuffled. So a step's rows are a
    pure function of (data, seed, step), an epoch has each text once, and no text is
    shortened. A batch has the length of its longest row.

    Evaluations read the texts sorted by bucket.
    """

    def __init__(
        self, source: TextSource, objective: Any, *, lengths: Sequence[int], rows: int
    ):
        """
        Args:
          lengths: ascending; the last one is data.length.
          rows: B.
        """
        self.source = source
        self.lengths = np.asarray(lengths)
        self._rows = rows
        self._bucket = np.concatenate(  # [N]
            [self._buckets(index, objective.row_length) for index in source.indices]
        )
        self._window = -1, np.empty((0, 0)), np.empty(0)

    def batch(self, step: int) -> tuple[np.ndarray, int]:
        """The counters [B] of a step's rows, ascending, and the batch's length."""
        window, offset = divmod(step, STEPS_PER_WINDOW)
        found = self._window  # another thread may replace it
        if found[0] != window:
            found = self._window = window, *self._divide(window)
        return found[1][offset], int(found[2][offset])

    def count_steps(self, start: int, stop: int) -> dict[int, int]:
        """Length -> how many of the steps from `start` to `stop` have it."""
        found = [self.batch(step)[1] for step in range(start, stop)]
        return {length: found.count(length) for length in self.lengths.tolist()}

    def evaluation_order(self) -> np.ndarray:
        """[N] int64: the numbers of the examples, sorted by bucket."""
        return np.argsort(self._bucket, kind="stable")

    def longest(self, number: np.ndarray) -> int:
        """The length of a batch of the examples with these numbers [n]."""
        return int(self.lengths[self._bucket[number].max()])

    def _buckets(self, index: Any, row_length: Callable) -> np.ndarray:
        """[rows of the index]: which of the lengths each needs."""
        total = np.asarray(index.length)
        if index.second_length is not None:
            total = total + index.second_length
        needed = row_length(np.asarray(index.length), total)
        last = len(self.lengths) - 1  # a text may be cut to data.length
        return np.minimum(np.searchsorted(self.lengths, needed), last).astype(np.uint8)

    def _divide(self, window: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the steps of a window, counters [S, B] and lengths [S]."""
        num = STEPS_PER_WINDOW * self._rows
        counter = window * num + np.arange(num)
        bucket = self._bucket[self.source.numbers(counter)]
        order = np.argsort(bucket, kind="stable").reshape(-1, self._rows)
        place = np.arange(STEPS_PER_WINDOW)
        seed = self.source.seed
        order = order[permute(place, STEPS_PER_WINDOW, seed=seed, epoch=window)]
        order.sort(axis=1)
        return counter[order], self.lengths[bucket[order].max(axis=1)]


def check_lengths(data: Any, objective: Any, name: str) -> None:
    """Checks data.length_buckets.

    Args:
      data: the config's section.
      objective, name: that of the config.

    Raises:
      UserError: they do not ascend, one of them is not between the least length of the
        objective and data.length, or the objective has no rows of several lengths.
    """
    lengths = [*data.length_buckets]
    if not hasattr(objective, "row_length"):
        raise UserError(
            f"data.length_buckets: rows of objective {name} have one length; set "
            "data.length_buckets=[]"
        )
    whole = all(isinstance(length, int) for length in lengths)
    bounds = objective.min_length, data.length - 1
    inside = whole and all(bounds[0] <= length <= bounds[1] for length in lengths)
    if not inside or lengths != sorted({*lengths}):
        raise UserError(
            f"data.length_buckets is {lengths}; it has ascending whole numbers from "
            f"{bounds[0]} to data.length - 1, {bounds[1]}"
        )
    if data.task or data.reader != "native":
        raise UserError(
            "data.length_buckets needs a corpus that data.reader=native reads; set "
            "data.task= and data.reader=native, or data.length_buckets=[]"
        )
