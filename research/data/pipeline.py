"""From (data, seed, step) to the global batch of that step, on the host, seekable."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from research.batch import VocabInfo
from research.data import cache
from research.data.loading import saved_batches
from research.data.loading.build import open_text, rates_of
from research.errors import UserError, unknown

# n rows asked for, N examples of an epoch

Rows = slice | np.ndarray
"""Of a batch: those that one host feeds, ascending."""

READERS = ("native", "seqio")
AHEAD = 256
"""Rows made at a time when batches are read in a row: what NumPy calls cost least."""


class Source(Protocol):
    """Whatever gives rows of a batch by number: text, a seqio task, written batches."""

    num_examples: int | None
    """N, of an epoch; None: not known before they are read."""

    fingerprint: str

    contiguous: bool
    """Whether rows go on from step to step, and so belong to one batch size."""

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows g [n] int64, ascending: a pure function of g."""

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, `size` at a time; the last time fewer.

        With `contiguous` it is `size` rows each time, of which some may be empty.
        """

    def empty(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text, whose weights are 0."""


class Pipeline:
    """Batches of rows: row r of step s is row s * batch + r of the source.

    What a row is does not depend on the batch size, but for sources with `contiguous`,
    and for an objective that looks at the step of a row.
    """

    def __init__(self, source: Source, *, batch: int):
        self.source = source
        self.size = batch

    @property
    def num_examples(self) -> int | None:
        """Examples of an epoch; None where only reading them would tell."""
        return self.source.num_examples

    @property
    def fingerprint(self) -> str:
        """Of the data, not of the seed or the batch size."""
        return self.source.fingerprint

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Rows [n, ...] of the counters step * batch + row [n] int64, ascending."""
        return self.source.rows(counter)

    def batch(self, step: int, rows: Rows | None = None) -> dict[str, np.ndarray]:
        """The batch of a step, or this host's `rows` of it: a pure function."""
        return self.rows(step * self.size + self._numbers(rows))

    def batches(self, step: int = 0, rows: Rows | None = None, limit: int = 0):
        """The batches of `step`, `step + 1`, ... up to `limit` (0: without end).

        Equal to `batch` of each; cheaper, since several are made at a time.
        """
        numbers = self._numbers(rows)
        while not limit or step < limit:
            ahead = max(1, AHEAD // len(numbers))
            ahead = min(ahead, limit - step) if limit else ahead
            first = self.size * np.arange(step, step + ahead)
            chunk = self.rows((first[:, None] + numbers).ravel())
            for part in range(ahead):
                yield _slice(chunk, part * len(numbers), (part + 1) * len(numbers))
            step += ahead

    def evaluation(self, rows: Rows | None = None):
        """Each example once, in the order of the text, with noise that never changes.

        All batches are full: the last one is filled up with rows of weight 0.
        """
        for chunk in self.source.in_order(self.size):
            missing = self.size - len(chunk["example"])
            if missing:
                rest = self.source.empty(missing)
                chunk = {
                    name: np.concatenate([chunk[name], rest[name]]) for name in rest
                }
            yield chunk if rows is None else {k: v[rows] for k, v in chunk.items()}

    def _numbers(self, rows: Rows | None) -> np.ndarray:
        return np.arange(self.size, dtype=np.int64)[
            slice(None) if rows is None else rows
        ]


def prefetch(items: Iterable, depth: int = 2) -> Iterator:
    """The same items, made ahead by a thread: at most `depth` wait to be taken.

    What the thread raises is raised here, in the place of the item; the thread ends
    with the generator.
    """
    waiting: queue.Queue = queue.Queue(depth)
    closed = threading.Event()

    def put(item) -> bool:
        while not closed.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            if all(put((item, None)) for item in items):
                put((None, StopIteration()))
        except BaseException as error:
            put((None, error))

    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error = waiting.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        closed.set()
        thread.join()


class Data(NamedTuple):
    """What a run reads."""

    vocab: VocabInfo
    train: Pipeline
    eval: Pipeline
    fingerprint: str
    counts: dict[str, int]  # tokens read, skipped, ...: to be told to the user once
    vocabulary: Any = None  # that made the text's tokens, where it was ours to make

    @property
    def vocabulary_hash(self) -> str:
        """Of the vocabulary's file; empty where it is not ours."""
        return self.vocabulary.sha256 if self.vocabulary else ""


def open_data(config: Any, objective: Any) -> Data:
    """Opens what config.data names: corpus, vocabulary, stream, index, batches.

    Whatever takes long is read from data.cache_dir if it was ever made. `data.task`,
    where it is not empty, is one of

    * a folder that `launch.prepare --batches` wrote: those batches, without text;
    * `corpus:objective` or `mix:objective`, of this config's objective: the corpus, or
      data.mixture, as if data.task were empty;
    * a seqio task or mixture that is registered; `package.module:name` imports the
      module first, which is to register it.

    Raises:
      UserError: a name, split or value of config.data that is not right.
    """
    data = config.data
    if data.reader not in READERS:
        raise unknown("data.reader", data.reader, READERS)
    if saved_batches.found(data.task):
        return assemble(config, *saved_batches.read(config))
    if not rates_of(config) or _is_registered(data.task):
        if "/" in data.task:
            raise UserError(
                f"data.task {data.task!r} holds no whole batches of launch.prepare"
            )
        from research.data.seqio import tasks  # and TensorFlow

        return assemble(config, *tasks.open_any(config, objective), {})
    opened = open_text(config, objective)
    train, held_out = opened.train, opened.eval
    counts = {
        f"{split}/{name}": count
        for split, source in (("train", train), ("eval", held_out))
        for name, count in source.counts().items()
    }
    if data.reader == "seqio":
        from research.data.seqio import tasks

        train, held_out = tasks.open_own(config, objective, opened)
    opened_data = assemble(config, opened.vocab, train, held_out, counts)
    return opened_data._replace(vocabulary=opened.vocabulary)


def _is_registered(task: str) -> bool:
    """Whether seqio has a task of that name that is not ours."""
    if not task or "seqio" not in sys.modules:
        return False  # then nobody has registered one
    from research.data.seqio import tasks

    return tasks.registered(task) and task not in tasks.OWN


def assemble(
    config: Any, vocab: VocabInfo, train: Source, eval: Source, counts
) -> Data:
    """Data of two sources of rows."""
    fingerprint = cache.fingerprint([train.fingerprint, eval.fingerprint])
    pipelines = (Pipeline(source, batch=config.train.batch) for source in (train, eval))
    return Data(vocab, *pipelines, fingerprint, counts)


def _slice(chunk: dict, start: int, stop: int) -> dict[str, np.ndarray]:
    return {name: array[start:stop] for name, array in chunk.items()}
