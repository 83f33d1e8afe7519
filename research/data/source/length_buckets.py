"""Batches of texts of similar lengths: their rows and their lengths."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.data.order.permutation import permute
from research.data.source.text_source import TextSource

# n rows, N examples, S steps of a window, B rows of a batch

MAX_STEPS = 64
"""The most steps of a window. More steps mean fewer batches with rows of two buckets,
but a text moves by up to so many steps from its place in the shuffled order."""


class Window(NamedTuple):
    """Steps whose rows are divided by length."""

    number: int
    counter: np.ndarray  # [S, B] int64, counters of each step's rows, ascending
    length: np.ndarray  # [S], length of each step's batch


class LengthBuckets:
    """Divides the rows of a `TextSource` into batches of several lengths.

    The steps are divided into windows of at most an epoch. The rows of a window, which
    its steps would also have without buckets, are sorted by bucket, i.e. the shortest
    length that holds a text, and cut into batches; the batches of the window are
    shuffled. So a step's rows are a pure function of (data, seed, step), and no text is
    shortened. A batch has the length of its longest row. A run that ends within a
    window misses some of its texts, and has read a few of the next epoch.

    Evaluations read the texts sorted by bucket.
    """

    def __init__(
        self, source: TextSource, objective: Any, *, lengths: Sequence[int], rows: int
    ):
        """Sorts the texts by bucket.

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
        self.steps = max(1, min(MAX_STEPS, source.num_examples // rows))  # of a window
        self._window = Window(-1, np.empty((0, 0)), np.empty(0))

    def batch(self, step: int) -> tuple[np.ndarray, int]:
        """The counters [B] of a step's rows, ascending, and the batch's length."""
        number, offset = divmod(step, self.steps)
        window = self._window  # another thread may replace it
        if window.number != number:
            window = self._window = self._divide(number)
        return window.counter[offset], int(window.length[offset])

    def count_steps(self, start: int, stop: int) -> dict[int, int]:
        """Length -> number of steps with it from `start` to `stop`."""
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
        return np.minimum(np.searchsorted(self.lengths, needed), last).astype(np.int32)

    def _divide(self, number: int) -> Window:
        num, seed = self.steps * self._rows, self.source.seed
        counter = number * num + np.arange(num)
        bucket = self._bucket[self.source.numbers(counter)]
        order = np.argsort(bucket, kind="stable").reshape(-1, self._rows)
        position = np.arange(self.steps)
        order = order[permute(position, self.steps, seed=seed, epoch=number)]
        order.sort(axis=1)
        length = self.lengths[bucket[order].max(axis=1)]
        return Window(number, counter[order], length)
