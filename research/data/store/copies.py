"""The indices of a corpus: one for all epochs, or one for each copy of its text."""

# n rows, C copies

import functools
import threading
from collections.abc import Callable

import numpy as np

from research.data.store.example_index import Index

MAX_OPEN = 4
"""The most copies whose arrays stay mapped; a batch at an epoch's end reads two."""


class Copies:
    """The indices that the epochs of one corpus read.

    Epoch e reads copy e % num, or copy e if `num` is 0. A copy is made when a row of it
    is first read or its size is needed. The rows of an epoch are those of its copy, so
    epochs may differ in size: row c of a corpus is at position c - (rows of earlier
    epochs) of its epoch. This depends on the text alone, not on what was read before.
    """

    def __init__(self, build: Callable[[int], Index], num: int = 1):
        """`build` makes the index of a copy, deterministically."""
        self.num = num
        self._open = functools.lru_cache(MAX_OPEN)(build)
        self._lock = threading.Lock()
        self._ends = [len(build(0).start)]  # [copies so far] rows up to each one's end

    def copy(self, epoch: np.ndarray) -> np.ndarray:
        """[n]: the copies that epochs [n] read."""
        return epoch % self.num if self.num else epoch

    def index(self, copy: int) -> Index:
        with self._lock:
            return self._open(copy)

    def size(self, copy: int) -> int:
        """Rows of a copy."""
        ends = self._ends_to(lambda ends: len(ends) > copy)
        return int(ends[copy] - (ends[copy - 1] if copy else 0))

    def locate(self, counter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """epoch, position [n] int64 of the corpus's rows `counter` [n] int64."""
        last = counter.max(initial=0)
        ends = self._ends_to(lambda ends: ends[-1] > last or len(ends) == self.num)
        rounds = 0
        if len(ends) == self.num:
            rounds, counter = np.divmod(counter, ends[-1])
        copy = np.searchsorted(ends, counter, side="right")
        first = np.concatenate([[0], ends])[copy]
        return rounds * self.num + copy, counter - first

    def counter(self, epoch: np.ndarray, position: np.ndarray) -> np.ndarray:
        """[n] int64: the rows at positions of epochs, the inverse of `locate`."""
        copy, last = self.copy(epoch), epoch.max(initial=0)
        ends = self._ends_to(lambda ends: len(ends) > last or len(ends) == self.num)
        first = np.concatenate([[0], ends])[copy]
        rounds = epoch // self.num if self.num else 0
        return rounds * ends[-1] + first + position

    def _ends_to(self, enough: Callable[[list[int]], bool]) -> np.ndarray:
        """[C]: rows up to the end of each copy, for as many copies as are `enough`."""
        with self._lock:
            while not enough(self._ends):
                size = len(self._open(len(self._ends)).start)
                self._ends.append(self._ends[-1] + size)
            return np.array(self._ends)
