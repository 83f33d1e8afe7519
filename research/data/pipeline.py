"""The global batch of any step as a function of (data, seed, step), on the host."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.data import cache
from research.data.options import DataOptions
from research.data.read.corpus import SPLITS
from research.data.source import length_buckets
from research.data.source.build import corpus_rates, open_text
from research.data.source.prefetch import prefetch

if TYPE_CHECKING:
    from research.objectives import Objective

# n rows requested, N examples of an epoch

BYTES_PER_CALL = 2**24
"""Bytes of batches that are made in one call; larger calls are hardly faster."""

RowSelection = slice | np.ndarray
"""The rows of a batch that one host feeds, ascending."""


class Source(Protocol):
    """Gives rows of a batch by number: text, a seqio task or saved batches."""

    @property
    def num_examples(self) -> int | None:
        """N, the examples of an epoch; None if unknown before they are read."""

    fingerprint: str
    """Hash of the data that the rows are made from."""

    contiguous: bool
    """Whether rows continue from step to step, and so depend on the batch size."""

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows g [n] int64, ascending: a pure function of g.

        `TextSource.rows` takes their length and their step as well.
        """

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, `size` rows at a time; the last chunk may have fewer.

        With `contiguous` every chunk has `size` rows, of which some may be empty.
        """

    def empty_rows(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text, whose weights are 0."""


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Batches of rows: row r of step s is row s * batch_size + r of the source.

    A row's content does not depend on the batch size, except for sources with
    `contiguous`, with data.mixing=batches, and for objectives with `reads_step`. If
    `buckets` is set, it chooses the rows of a step and the length of its batch.
    """

    source: Source
    batch_size: int
    buckets: length_buckets.LengthBuckets | None = None

    @property
    def num_examples(self) -> int | None:
        """Examples of an epoch; None if it is not known before they are read."""
        return self.source.num_examples

    @property
    def fingerprint(self) -> str:
        """Hash of the data; does not depend on the seed or the batch size."""
        return self.source.fingerprint

    def batch(
        self, step: int, rows: RowSelection | None = None
    ) -> dict[str, np.ndarray]:
        """The batch of a step, or this host's `rows` of it: a pure function."""
        if self.buckets is None:
            first = step * self.batch_size
            return self.source.rows(first + self._row_numbers(rows))
        counter, length = self.buckets.batch(step)
        return self.source.rows(counter[self._row_numbers(rows)], length, step)

    def batches(self, step: int = 0, rows: RowSelection | None = None, limit: int = 0):
        """The batches of `step`, `step + 1`, ... before `limit` (0: without end).

        Each equals `batch` of its step. Several are made at once, which is faster, and
        a thread makes the next ones while these are used.
        """
        made = prefetch(self.calls(step, rows, limit), depth=1)
        with contextlib.closing(made) as calls:
            for batches in calls:
                yield from batches

    def calls(self, step: int = 0, rows: RowSelection | None = None, limit: int = 0):
        """The same batches, in lists of those that are made at once."""
        num_steps = 1  # the first batch shows how large batches are
        while not limit or step < limit:
            num_steps = min(num_steps, limit - step) if limit else num_steps
            batches = self._batches_at_once(step, num_steps, rows)
            yield batches
            step += num_steps
            if self.buckets is None:
                num_bytes = sum(array.nbytes for array in batches[0].values())
                num_steps = max(1, BYTES_PER_CALL // num_bytes)

    def _batches_at_once(self, step: int, num_steps: int, rows: RowSelection | None):
        if num_steps == 1:
            return [self.batch(step, rows)]
        first = self.batch_size * np.arange(step, step + num_steps)[:, None]
        chunk = self.source.rows((first + self._row_numbers(rows)).ravel())
        split = {name: np.split(array, num_steps) for name, array in chunk.items()}
        return [{name: split[name][i] for name in split} for i in range(num_steps)]

    def evaluation(self, rows: RowSelection | None = None):
        """Each example once, always with the same corruption, in `evaluation_order`.

        All batches have batch_size rows: the last one is padded with rows of weight 0.
        """
        for chunk in self._evaluation_chunks():
            missing = self.batch_size - len(chunk["example"])
            if missing:
                rest = self.source.empty_rows(missing)
                chunk = {
                    name: np.concatenate([chunk[name], rest[name]]) for name in rest
                }
            yield chunk if rows is None else {k: v[rows] for k, v in chunk.items()}

    def evaluation_order(self) -> np.ndarray | None:
        """[N]: the examples' numbers as `evaluation` reads them; None: 0, 1, ..."""
        return None if self.buckets is None else self.buckets.evaluation_order()

    def _evaluation_chunks(self) -> Iterator[dict[str, np.ndarray]]:
        """Chunks of rows; the last may have fewer, which then have data.length."""
        if self.buckets is None:
            yield from self.source.in_order(self.batch_size)
            return
        order = self.evaluation_order()
        for begin in range(0, len(order), self.batch_size):
            number = order[begin : begin + self.batch_size]
            is_full = len(number) == self.batch_size
            length = self.buckets.longest(number) if is_full else None
            yield self.source.evaluation_rows(number, length)

    def _row_numbers(self, rows: RowSelection | None) -> np.ndarray:
        numbers = np.arange(self.batch_size, dtype=np.int64)
        return numbers if rows is None else numbers[rows]


class Data(NamedTuple):
    """The data of a run."""

    vocab: VocabInfo
    train: Pipeline
    eval: Pipeline
    fingerprint: str
    counts: dict[str, int]  # tokens, examples, skipped, ...: reported once to the user
    vocabulary: Any = None  # the Vocabulary of the text; None if it is not ours
    documents: Any = None  # () -> the documents of the eval split; None: no text
    task: Any = None  # the `TaskSource` of the eval split, if it has inputs and targets
    classes: tuple[str, ...] = ()  # `vocab.labels` in the order of the data set: of two
    # classes the second is the positive one
    evaluation_note: str = ""  # `OpenedText.evaluation_note`

    @property
    def has_gold(self) -> bool:
        """Whether there is something to score predictions against."""
        return self.documents is not None or self.task is not None

    @property
    def token_entropy(self) -> float:
        """The entropy of token frequencies in the training text, in nats; 0: unknown.

        It is the lowest loss per token of a model without context.
        """
        count = self.vocab.token_count
        if count is None or not count.any():
            return 0.0
        frequency = count[count > 0] / count.sum()
        return float(-(frequency * np.log(frequency)).sum())

    @property
    def vocabulary_hash(self) -> str:
        """Hash of the vocabulary's file; empty if it is not ours."""
        return self.vocabulary.sha256 if self.vocabulary else ""

    @property
    def vocabulary_facts(self) -> dict[str, Any]:
        """`Vocabulary.facts`; without a hash if the vocabulary is not ours."""
        facts = self.vocabulary.facts if self.vocabulary else {"vocabulary": ""}
        return facts | {"labels": self.vocab.labels}


def open_data(
    data: DataOptions,
    objective: "Objective",
    *,
    seed: int,
    batch_size: int,
    num_steps: int,
) -> Data:
    """Opens what config.data names: corpus, vocabulary, stream, index, batches.

    Whatever takes long is cached in data.cache_dir. `data.task`, if it is not empty, is
    one of

    * a folder that `palimpsest prepare --batches` wrote: the batches of its train_split
      and its eval_split, without text, so predictions are not scored;
    * `corpus:objective` or `mix:objective`, with this config's objective: the corpus,
      or data.mixture, as if data.task were empty;
    * a registered seqio task or mixture; for `package.module:name` the module, which
      must register it, is imported first. Its metrics are computed if the objective
      writes text, see `research.data.seqio.task_metrics`.

    Raises:
      UserError: a name, split or value of config.data is wrong.
    """
    numbers = {"seed": seed, "batch_size": batch_size}
    if data.task:
        from research.data.source import saved_batches  # few runs need it

        if saved_batches.has_saved_batches(data.task):
            _refuse_named_splits(data)
            opened = saved_batches.open_saved_batches(
                data, objective, num_steps=num_steps, **numbers
            )
            return _make_data(data, objective, batch_size, *opened)
    if not corpus_rates(data, objective) or _is_user_task(data.task):
        if "/" in data.task:
            raise UserError(
                f"data.task {data.task!r} has no complete batches of palimpsest prepare"
            )
        _refuse_named_splits(data)
        objective.check_corpora(1)
        from research.data.seqio import open_tasks  # imports TensorFlow

        vocab, train, held_out = open_tasks.open_user_task(data, objective, **numbers)
        opened = _make_data(data, objective, batch_size, vocab, train, held_out, {})
        return opened._replace(task=held_out if held_out.has_inputs else None)
    text = open_text(data, objective, **numbers)
    train, held_out = text.train, text.eval
    counts = {
        f"{split}/{name}": count
        for split, source in (("train", train), ("eval", held_out))
        for name, count in source.counts().items()
    }
    if data.reader == "seqio":
        from research.data.seqio import open_tasks

        train, held_out = open_tasks.open_own_task(data, objective, text, **numbers)
    opened = _make_data(
        data, objective, batch_size, text.vocab, train, held_out, counts
    )
    return opened._replace(
        vocabulary=text.vocabulary,
        documents=text.documents,
        classes=text.classes,
        evaluation_note=text.evaluation_note,
    )


def _refuse_named_splits(data: DataOptions) -> None:
    """Raises UserError: a split has files, but data.task has its own text."""
    for split in SPLITS:
        if getattr(data, split):
            raise UserError(
                f"data.task and data.{split} name two texts; {data.task} has splits of "
                "its own: set one of the two keys to nothing"
            )


def _is_user_task(task: str) -> bool:
    """Whether seqio's registry has a task of that name that is not ours."""
    if not task or "seqio" not in sys.modules:
        return False  # without seqio nothing can be registered
    from research.data.seqio import register_tasks

    return register_tasks.is_registered(task) and task not in register_tasks.OWN_TASKS


def _make_data(
    data: DataOptions,
    objective: "Objective",
    size: int,
    vocab: VocabInfo,
    train: Source,
    held_out: Source,
    counts: dict[str, int],
) -> Data:
    fingerprint = cache.fingerprint([train.fingerprint, held_out.fingerprint])
    # What its objective cannot hide is reported before the long work.
    objective.needs(vocab)
    train.empty_rows(1)
    pipelines = []
    for source in (train, held_out):
        buckets = None
        if lengths := [*data.length_buckets]:
            lengths.append(data.length)
            buckets = length_buckets.LengthBuckets(
                source, objective, lengths=lengths, rows=size
            )
        pipelines.append(Pipeline(source, batch_size=size, buckets=buckets))
    return Data(vocab, *pipelines, fingerprint, counts)
