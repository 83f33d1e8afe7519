"""A seqio task or mixture as a source of rows; it is read on, so seeking takes time."""

import atexit
import contextlib
import sys
import weakref
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from research.batch import (
    DOCUMENT,
    EVALUATION_STEP,
    PARAGRAPH,
    SENTENCE,
    WORD,
    VocabInfo,
)
from research.data import cache, counter_rng
from research.data.loading.examples import EVALUATION_SEED, Text, no_text
from research.data.store.example_index import PAIR_UNITS
from research.errors import UserError, unknown

# n rows, R raw tokens an example, W the widest array of a chunk

ROWS = 256
"""Examples that are taken at a time."""

_OPEN: weakref.WeakSet = weakref.WeakSet()
"""Generators that read a task."""


@atexit.register
def _close() -> None:
    """Ends what still reads: TensorFlow would wait for threads that Python stopped."""
    for chunks in list(_OPEN):
        with contextlib.suppress(ValueError):  # another thread is in it
            chunks.close()


class Registered:
    """The examples of one split: a `pipeline.Source`.

    A task's examples either are the objective's arrays, which may be shorter and are
    filled up with 0, or texts: token ids named `targets`, which the objective hides.
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
        batch: int,
        words: np.ndarray | None = None,
        tasks: Sequence[Any] = (),
        text: Text | None = None,
    ):
        """TextSpec a `seqio.Task` or `seqio.Mixture`.

        Args:
          batch: rows of a step.
          words: [V] bool, at which ids of its texts a word starts; None: at all.
          tasks: its tasks in the order of an evaluation; (): their own.
          text: the same rows, read natively, if it is a task of ours.

        Raises:
          UserError: it has no such split, or its examples are neither arrays nor text.
        """
        tasks = tasks or getattr(provider, "tasks", [provider])
        self.num_examples = text and text.num_examples
        self.contiguous = False
        self._name, self._provider = provider.name, provider
        self._split = _find_split(provider, split)
        self._tasks = [task for task in tasks if self._split in task.splits]
        self._objective, self._vocab, self._length = objective, vocab, length
        self._width = objective.text_spec(length).length
        self._seed, self._batch = seed, batch
        self._words = np.ones(vocab.size, bool) if words is None else words
        self._specs = objective.batch_spec(length)
        self._takes = self._choose(provider.output_features)
        self._chunks: Iterator = iter(())
        self._chunk: dict | None = None
        self._begin = 0  # the counter of the chunk's first row
        self._cut = False
        made_of = [provider.name, self._split, sorted(provider.output_features), length]
        self.fingerprint = text.fingerprint if text else cache.fingerprint(made_of)

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows g [n] int64, ascending. A step back begins anew and skips."""
        if self._chunk is None or counter[0] < self._begin:
            self._begin = int(counter[0])
            dataset = self._dataset(self._provider, self._may_shuffle(), None)
            self._chunks = self._read(
                dataset.skip(self._begin), ROWS, self._begin, self._seed, self._batch
            )
            self._chunk = self._next()
        parts = []
        while True:
            end = self._begin + len(self._chunk["example"])
            here = counter[counter < end] - self._begin
            parts.append({name: rows[here] for name, rows in self._chunk.items()})
            counter = counter[counter >= end]
            if not len(counter):
                break
            self._begin, self._chunk = end, self._next()
        return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, task by task, `size` at a time."""
        parts = [self._dataset(task, False, 1) for task in self._tasks]
        whole = reduce(lambda one, other: one.concatenate(other), parts)
        return self._read(whole, size, 0, EVALUATION_SEED, 0)

    def empty(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text."""
        none = no_text(num, self._width, self._vocab.pad_id)
        return self._hide(none, np.zeros(num, np.uint64), np.zeros(num, np.int64))

    def _choose(self, features: Any) -> tuple[str, ...]:
        """Which features of an example are read."""
        if set(self._specs) <= set(features):
            for name, spec in self._specs.items():
                if features[name].rank != len(spec.shape):
                    raise UserError(
                        f"data.task {self._name}: {name} has {features[name].rank} "
                        f"dimensions; the objective's has {len(spec.shape)}"
                    )
            own = ("example",) if "example" in features else ()
            return (*self._specs, *own)
        unit = self._objective.text_spec(self._length).unit
        if unit in PAIR_UNITS:
            raise UserError(
                f"data.task {self._name} has single texts, and the objective reads "
                "pairs of sentences; give a task that has the objective's arrays"
            )
        if "targets" in features and features["targets"].rank == 1:
            return ("targets",)
        raise UserError(
            f"data.task {self._name} has neither the objective's arrays "
            f"({', '.join(self._specs)}) nor token ids as targets; "
            f"it has {', '.join(features)}"
        )

    def _may_shuffle(self) -> bool:
        return all(
            task.shuffle_buffer_size is not None
            or task.source.performs_internal_shuffling
            for task in self._tasks
        )

    def _dataset(self, provider: Any, shuffle: bool, num_epochs: int | None):
        shapes = {name: spec.shape for name, spec in self._specs.items()}
        shapes["targets"] = (self._width,)
        lengths = {n: shapes[n][0] for n in self._takes if shapes.get(n)}
        dataset = provider.get_dataset(
            sequence_length=lengths,
            split=self._split,
            shuffle=shuffle,
            seed=self._seed,
            num_epochs=num_epochs,
            trim_output_features=False,
            try_in_mem_cache=False,
        )
        return dataset.map(lambda row: {name: row[name] for name in self._takes})

    def _next(self) -> dict[str, np.ndarray]:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise UserError(f"data.task {self._name}: {self._split} has no examples")
        return chunk

    def _read(self, *args: Any) -> Iterator[dict]:
        """`_chunks_of`, to be closed before Python ends."""
        chunks = self._chunks_of(*args)
        _OPEN.add(chunks)
        return chunks

    def _chunks_of(self, dataset: Any, size: int, begin: int, seed: int, batch: int):
        """Rows of `size` examples at a time, counted from `begin`.

        batch: rows of a step; 0: of no step, they are evaluated.
        """
        types = {k: v.dtype.as_numpy_dtype for k, v in dataset.element_spec.items()}
        filler = {k: t(-1 if k == "targets" else 0) for k, t in types.items()}
        for chunk in dataset.padded_batch(size, None, filler).as_numpy_iterator():
            counter = begin + np.arange(len(chunk[self._takes[0]]))
            begin += len(counter)
            if self._takes == ("targets",):
                step = (
                    counter // batch
                    if batch
                    else np.full_like(counter, EVALUATION_STEP)
                )
                yield self._from_text(chunk["targets"], counter, step, seed)
            else:
                place = counter & np.iinfo(np.int32).max
                rows = {name: self._fill(name, chunk[name]) for name in self._specs}
                yield rows | {"example": chunk.get("example", place).astype(np.int32)}

    def _fill(self, name: str, array: np.ndarray) -> np.ndarray:
        """An array of the chunk in the objective's shape, filled up with 0."""
        spec = self._specs[name]
        missing = [
            want - has for want, has in zip(spec.shape, array.shape[1:], strict=True)
        ]
        if any(less < 0 for less in missing):
            raise UserError(
                f"data.task {self._name}: {name} has shape {array.shape[1:]}, which is "
                f"longer than the objective's {spec.shape}; see data.length"
            )
        array = np.pad(array, [(0, 0), *((0, more) for more in missing)])
        return array.astype(spec.dtype, copy=False)

    def _from_text(self, token: np.ndarray, counter, step, seed: int):
        """Rows of texts [n, W], -1 beyond their ends: cut to R, then hidden."""
        whole = (token >= 0).sum(1)
        if whole.max(initial=0) > self._width and not self._cut:
            self._cut = True
            print(
                f"data.task {self._name}: texts of over {self._width} tokens are cut",
                file=sys.stderr,
            )
        example = no_text(len(token), self._width, self._vocab.pad_id)
        example.step[:] = step
        example.document[:] = np.where(whole > 0, counter, -1)  # each text is one
        width = min(self._width, token.shape[1])
        inside = token[:, :width] >= 0
        example.token[:, :width][inside] = token[:, :width][inside]
        example.flags[:, :width][inside] = WORD * self._words[token[:, :width][inside]]
        example.flags[whole > 0, 0] = WORD | SENTENCE | PARAGRAPH | DOCUMENT
        example.length[:] = example.first_length[:] = np.minimum(whole, self._width)
        key = counter_rng.row_key(seed, np.zeros_like(counter), counter)
        return self._hide(example, key, counter)

    def _hide(self, example, key, counter: np.ndarray) -> dict[str, np.ndarray]:
        rows = self._objective.corrupt(example, key, self._vocab, self._length)
        place = counter & np.iinfo(np.int32).max
        return rows | {"example": place.astype(np.int32)}


def _find_split(provider: Any, split: str) -> str:
    """The provider's own name of a split: what we call valid may be validation."""
    known = tuple(provider.splits)
    if split not in known and split == "valid" and "validation" in known:
        return "validation"
    if split not in known:
        raise unknown(f"split of data.task {provider.name}", split, known)
    return split
