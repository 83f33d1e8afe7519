"""A seqio task or mixture as a source of rows. Seeking means skipping examples."""

import atexit
import contextlib
import hashlib
import sys
import weakref
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from research.contract.batch import (
    EVALUATION_STEP,
    VocabInfo,
    check_arrays,
    empty_examples,
    example_ids,
)
from research.contract.errors import UserError
from research.data import cache, counter_rng
from research.data.seqio import task_metrics
from research.data.seqio.task_errors import name_line
from research.data.seqio.task_examples import cut_texts, make_examples
from research.data.seqio.task_features import choose_features, count_ids, find_split
from research.data.source.text_source import EVALUATION_SEED, ROWS_PER_CALL, TextSource
from research.data.store.example_index import Index

# n rows, N examples, T new tokens, V vocabulary, W the longest text of a chunk

HASHED_ROWS = 256
"""The examples of a task on which the fingerprint depends."""

_OPEN_GENERATORS: weakref.WeakSet = weakref.WeakSet()
"""Generators that read a TensorFlow dataset."""


@atexit.register
def _close_generators() -> None:
    """At exit TensorFlow would wait for threads that Python has stopped already."""
    for chunks in list(_OPEN_GENERATORS):
        with contextlib.suppress(ValueError):  # another thread is running it
            chunks.close()


class TaskSource:
    """The examples of one split: a `pipeline.Source`.

    A task's examples are the objective's arrays, which may be shorter and are padded
    with 0; or texts, i.e. token ids that the objective corrupts: those named `targets`,
    or `inputs` and `targets` if it reads an input and a target. An eos at the end of
    either of these two is left out, since the objective ends both with one.

    The fingerprint of a user's task covers the names of the task, its split and its
    features, data.length, special ids and the size of the vocabulary, and for each of
    the tasks its name, its rate in the mixture and its first HASHED_ROWS examples.
    """

    def __init__(
        self,
        provider: Any,
        objective: Any,
        vocab: VocabInfo,
        *,
        length: int,
        split: str,
        seed: int,
        batch_size: int,
        starts_word: np.ndarray | None = None,
        tasks: Sequence[Any] = (),
        text: TextSource | None = None,
    ):
        """Reads `provider`, a `seqio.Task` or `seqio.Mixture`.

        Args:
          length: data.length.
          batch_size: rows of a step.
          starts_word: [V] bool, the ids that start a word; None: all of them.
          tasks: the provider's tasks in the order of an evaluation; (): its own order.
          text: the source with the same rows, if the task is one of ours.

        Raises:
          UserError: it has no such split, its examples are neither arrays nor text, or
            the objective reads arrays besides a user's text.
        """
        tasks = tasks or getattr(provider, "tasks", [provider])
        self.num_examples = text and text.num_examples
        self.contiguous = False
        self._name, self._provider = provider.name, provider
        self._split = find_split(provider, split)
        self._tasks = [task for task in tasks if self._split in task.splits]
        self._objective, self._vocab, self._length = objective, vocab, length
        text_spec = objective.text_spec(length)
        if text_spec.arrays and not text:
            raise UserError(
                f"data.task {provider.name} has only text, but the objective also "
                f"reads arrays: {', '.join(text_spec.arrays)}"
            )
        self._width, self._text = text_spec.width, text
        self._seed, self._batch_size = seed, batch_size
        self._starts_word = (
            np.ones(vocab.size, bool) if starts_word is None else starts_word
        )
        self._specs = objective.batch_spec(length)
        self._features, self._rooms = choose_features(provider, objective, length)
        self._num_ids = (
            {} if text else count_ids(provider, objective, length, vocab.size)
        )
        self._chunks: Iterator = iter(())
        self._chunk: dict | None = None
        self._begin = 0  # the counter of the chunk's first row
        self._warnings: set[str] = set()
        made_of = [provider.name, self._split, sorted(provider.output_features), length]
        self.fingerprint = (
            text.fingerprint if text else cache.fingerprint([*made_of, *self._facts()])
        )

    def _facts(self) -> list:
        """Special ids; and the name, rate and first examples of each of the tasks."""
        vocab = self._vocab
        own = [vocab.pad_id, vocab.bos_id, vocab.eos_id, vocab.mask_id, vocab.unk_id]
        tasks = []
        for task in self._tasks:
            with name_line(f"data.task {self._name}"):  # a rate may be a function
                rate = getattr(self._provider, "get_rate", lambda task: 1.0)(task)
            tasks.append([task.name, rate, self._hash_first(task)])
        return [[vocab.size, *own, *vocab.sentinel_ids], tasks]

    def _hash_first(self, task: Any) -> str:
        """A hash of the first examples of a task in the order of an evaluation."""
        total = hashlib.blake2b(digest_size=16)
        for row in self._chunks_of(self._dataset(task).take(HASHED_ROWS)):
            for name in self._features:
                array = np.asarray(row[name])
                total.update(f"{name} {array.dtype} {array.shape} ".encode())
                total.update(array.tobytes())
        return total.hexdigest()

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows g [n] int64, ascending. Seeking back rereads from the start."""
        if self._chunk is None or counter[0] < self._begin:
            self._begin = int(counter[0])
            dataset = self._dataset(self._provider, training=True)
            self._chunks = self._read(
                dataset.skip(self._begin),
                ROWS_PER_CALL,
                self._begin,
                self._seed,
                self._batch_size,
            )
            self._chunk = self._next_chunk()
        parts = []
        while True:
            end = self._begin + len(self._chunk["example"])
            row = counter[counter < end] - self._begin
            parts.append({name: array[row] for name, array in self._chunk.items()})
            counter = counter[counter >= end]
            if not len(counter):
                break
            self._begin, self._chunk = end, self._next_chunk()
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, task by task, `size` rows at a time."""
        return self._read(self._in_order(), size, 0, EVALUATION_SEED, 0)

    def _in_order(self):
        """The examples of each task once."""
        datasets = [self._dataset(task) for task in self._tasks]
        return reduce(lambda one, other: one.concatenate(other), datasets)

    def empty_rows(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text."""
        if self._text:
            return self._text.empty_rows(num)
        example = empty_examples(num, self._width, self._vocab.pad_id)
        return self._corrupt(example, np.zeros(num, np.uint64), np.zeros(num, np.int64))

    @property
    def indices(self) -> list[Index]:
        """For one of our tasks, those of its text; [] for a user's task."""
        return self._text.indices if self._text else []

    @property
    def has_inputs(self) -> bool:
        """Whether its examples are inputs and targets, as token ids."""
        return "inputs" in self._rooms

    def prompts(self) -> Iterator[list[list[int]]]:
        """The inputs of each task's examples, in the order of an evaluation."""
        for task in self._tasks:
            rows = self._dataset(task).as_numpy_iterator()
            inputs = (row["inputs"][None] for row in rows)
            room, eos = self._rooms["inputs"], self._vocab.eos_id
            cut = (cut_texts(text, room, eos)[0][0] for text in inputs)
            yield [text[text >= 0].tolist() for text in cut]

    def score_texts(self, written: np.ndarray) -> task_metrics.ScoredTexts:
        """Texts that were written for `prompts`, and the tasks' own metrics.

        Args:
          written: [N, T] token ids, pad after a text's end.
        """
        examples = (
            (task, list(tfds.as_numpy(self._whole_dataset(task))))
            for task in self._tasks
        )
        return task_metrics.score_texts(examples, written, self._vocab.pad_id)

    def check_first(self) -> None:
        """Reads an example, so that errors are reported before anything is compiled.

        Raises:
          UserError: the task raises, or there is no example.
        """
        if next(self._read(self._in_order().take(1), 1, 0, 0, 0), None) is None:
            raise UserError(f"data.task {self._name}: {self._split} has no examples")

    def check_order(self) -> None:
        """Prints a line if training reads the examples in the same order each epoch.

        Raises:
          UserError: some tasks of a mixture can be shuffled, and others cannot.
        """
        fixed, where = ", ".join(self._fixed_tasks), f"data.task {self._name}"
        if 0 < len(self._fixed_tasks) < len(self._tasks):
            raise UserError(
                f"{where}: seqio shuffles all tasks of a mixture or none, but {fixed} "
                "cannot be shuffled; register it with a shuffle_buffer_size"
            )
        what = f"each epoch has the same order, since seqio cannot shuffle {fixed}"
        self._warn(bool(fixed), what)

    def check_metrics(self) -> None:
        """Raises UserError: a task has metrics that do not read written texts."""
        task_metrics.check_metrics(self._tasks)

    @property
    def _fixed_tasks(self) -> list[str]:
        """The names of the tasks that seqio does not shuffle."""
        return [
            task.name
            for task in self._tasks
            if task.shuffle_buffer_size is None
            and not task.source.performs_internal_shuffling
        ]

    def _dataset(self, provider: Any, *, training: bool = False):
        """The examples, with only what is read."""
        dataset = self._whole_dataset(provider, training=training)
        for name in self._features:
            if name not in dataset.element_spec:
                raise UserError(f"data.task {provider.name} makes no {name}")
        return dataset.map(lambda row: {name: row[name] for name in self._features})

    def _whole_dataset(self, provider: Any, *, training: bool = False):
        """The examples as the task makes them, including what only its metrics read.

        training: repeated, with the run's seed; else once, the same in each run.
        """
        order = {"shuffle": False, "seed": EVALUATION_SEED, "num_epochs": 1}
        if training:
            shuffle = not self._fixed_tasks
            order = {"shuffle": shuffle, "seed": self._seed, "num_epochs": None}
        lengths = {
            name: self._specs[name].shape[0]
            for name in self._features
            if name in self._specs and self._specs[name].shape
        }
        for name, room in self._rooms.items():
            lengths[name] = room + self.has_inputs  # with the eos
        with name_line(f"data.task {provider.name}"):
            return provider.get_dataset(
                sequence_length=lengths,
                split=self._split,
                **order,
                trim_output_features=False,
                try_in_mem_cache=False,
            )

    def _next_chunk(self) -> dict[str, np.ndarray]:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise UserError(f"data.task {self._name}: {self._split} has no examples")
        return chunk

    def _read(self, *args: Any) -> Iterator[dict]:
        """`_make_chunks`, closed before Python exits."""
        chunks = self._make_chunks(*args)
        _OPEN_GENERATORS.add(chunks)
        return chunks

    def _make_chunks(
        self, dataset: Any, size: int, begin: int, seed: int, batch_size: int
    ):
        """Chunks of `size` rows, counted from `begin`.

        batch_size: rows of a training step; 0 for an evaluation.
        """
        types = {k: v.dtype.as_numpy_dtype for k, v in dataset.element_spec.items()}
        filler = {k: t(-1 if k in self._rooms else 0) for k, t in types.items()}
        for chunk in self._chunks_of(dataset.padded_batch(size, None, filler)):
            counter = begin + np.arange(len(chunk[self._features[0]]))
            begin += len(counter)
            if self._rooms:
                step = np.full_like(counter, EVALUATION_STEP)
                if batch_size:
                    step = counter // batch_size
                yield self._corrupt_texts(chunk, counter, step, seed)
            else:
                self._check_arrays(chunk)
                rows = {name: self._pad(name, chunk[name]) for name in self._specs}
                example = chunk.get("example", example_ids(counter))
                yield rows | {"example": example.astype(np.int32)}

    def _chunks_of(self, batched: Any) -> Iterator[dict]:
        """The batches of a dataset; errors of the task become one line."""
        chunks = None
        while True:
            with name_line(f"data.task {self._name}"):
                chunks = chunks or batched.as_numpy_iterator()
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    def _pad(self, name: str, array: np.ndarray) -> np.ndarray:
        """An array of the chunk, padded with 0 to the objective's shape."""
        spec = self._specs[name]
        missing = [
            want - has for want, has in zip(spec.shape, array.shape[1:], strict=True)
        ]
        if any(num < 0 for num in missing):
            raise UserError(
                f"data.task {self._name}: {name} has shape {array.shape[1:]}, which is "
                f"longer than the objective's {spec.shape}; increase data.length"
            )
        array = np.pad(array, [(0, 0), *((0, num) for num in missing)])
        return array.astype(spec.dtype, copy=False)

    def _check_arrays(self, chunk: dict[str, np.ndarray]) -> None:
        """Raises UserError: an array, of targets where they count, has wrong ids."""
        for name in self._num_ids:
            ids = chunk[name]
            if name.endswith("target"):
                ids = ids[chunk[name.removesuffix("target") + "weight"] > 0]
            self._check_ids(name, ids)

    def _check_ids(self, name: str, ids: np.ndarray) -> None:
        """Raises UserError: some of a feature's `ids` are not in its vocabulary."""
        num_ids = self._num_ids[name]
        wrong = ids[(ids < 0) | (ids >= num_ids)]
        if wrong.size:
            raise UserError(
                f"data.task {self._name}: {name} has the token id {wrong.max()}, but "
                f"its vocabulary has {num_ids} ids, from 0 to {num_ids - 1}"
            )

    def _corrupt_texts(self, chunk: dict, counter, step, seed: int):
        """Rows of texts, each [n, W], -1 beyond their ends: cut, then corrupted."""
        eos = self._vocab.eos_id if self.has_inputs else None
        texts = []
        for name, room in self._rooms.items():
            self._check_ids(name, chunk[name][chunk[name] != -1])
            text, num_cut = cut_texts(chunk[name], room, eos)
            texts.append(text)
            self._warn(num_cut > 0, f"{name} of over {room} tokens are cut")
        sizes = [(text >= 0).sum(1) for text in texts]
        lacking = self.has_inputs and (np.min(sizes, axis=0) == 0).any()
        self._warn(lacking, "examples without inputs or targets are not scored")
        filled = make_examples(
            texts, self._width, self._vocab.pad_id, self._starts_word
        )
        filled.step[:], filled.number[:] = step, counter
        filled.document[:] = np.where(filled.length > 0, counter, -1)  # one text each
        key = counter_rng.row_key(seed, np.zeros_like(counter), counter)
        return self._corrupt(filled, key, counter)

    def _warn(self, is_so: bool, what: str) -> None:
        """Prints a warning once, if it applies."""
        if is_so and what not in self._warnings:
            self._warnings.add(what)
            print(f"data.task {self._name}: {what}", file=sys.stderr)

    def _corrupt(self, example, key, counter: np.ndarray) -> dict[str, np.ndarray]:
        rows = self._objective.corrupt(example, key, self._vocab, self._length)
        check_arrays(self._objective.name, rows, self._specs, len(key))
        return rows | {"example": example_ids(counter)}
