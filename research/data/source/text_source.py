"""Rows of a batch made from text: raw examples that the objective corrupts."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from research.contract.batch import (
    BACKWARD,
    EVALUATION_STEP,
    Example,
    VocabInfo,
    check_arrays,
    empty_examples,
    example_ids,
)
from research.data import cache as caches
from research.data import counter_rng
from research.data.order.contiguous_order import (
    ContiguousRows,
    contiguous_position,
    divide_rows,
    reads_backward,
)
from research.data.order.mixture_schedule import MIXINGS, MixtureSchedule, make_schedule
from research.data.order.permutation import permute
from research.data.read import lexicon
from research.data.store.copies import Copies
from research.data.store.example_index import Index

# n rows, N examples of an epoch, C corpora of a mixture

EVALUATION_SEED = 0
"""Seed of the corruption in evaluations, the same in every run."""

CORPUS_SHIFT = 40
"""Bits of a row's number in its corpus."""

ROWS_PER_CALL = 256
"""Number of rows of a seqio dataset that one call makes."""


class TextSource:
    """The examples of one split: a `pipeline.Source`.

    Row g is at position g % N of epoch g // N; each epoch has its own shuffled order.
    In a mixture, the schedule says which corpus row g is from, and each corpus counts
    its own rows and epochs. If a text is packed anew for each copy of it, epochs differ
    in size, see `Copies`.

    Only with `TextSpec.contiguous` does the order depend on the batch size: row r of a
    step continues where row r of the previous step ended. The schedule gives each row
    one corpus; the rows of a corpus divide its text evenly and read their parts in
    order, epoch after epoch, see `contiguous_position`. With `TextSpec.reverse`, half
    of them read their part backwards; evaluations do not.
    """

    def __init__(
        self,
        indices: Sequence[Index],
        objective: Any,
        vocab: VocabInfo,
        *,
        length: int,
        seed: int,
        rates: Mapping[str, float],
        batch_size: int,
        dupe_factor: int = 0,
        copies: Sequence[Copies] = (),
        mixing: str = "rows",
    ):
        """`indices[i]` is sampled at the rate of the i-th name in `rates`.

        Args:
          length: data.length, for the objective; another one in some evaluations.
          batch_size: rows of a step.
          dupe_factor: epoch e has the corruption of epoch e % dupe_factor; 0: each
            epoch has its own.
          copies: the copies of each corpus, whose first index is that in `indices`; ():
            each corpus has one index.
          mixing: data.mixing, whether each row or each batch is from one corpus.
        """
        self.rates = dict(rates)
        self.indices = tuple(indices)
        one_each = [Copies(lambda _, own=index: own) for index in indices]
        self._copies = tuple(copies or one_each)
        self.vocab = vocab
        self.seed, self.batch_size = seed, batch_size
        self.dupe_factor = dupe_factor
        self._rows_of_one_corpus = MIXINGS[mixing].run(batch_size)
        text_spec = objective.text_spec(length)
        self.contiguous = text_spec.contiguous
        self.reverse = self.contiguous and text_spec.reverse
        self.sizes = np.array([len(index.start) for index in indices])
        self.num_examples = int(self.sizes.sum())
        self._objective, self._length = objective, length
        self._width, self._random_start = text_spec.width, text_spec.random_start
        types = {n: t for index in indices for n, t in index.stream.arrays.items()}
        self._arrays = {name: types[name] for name in text_spec.arrays}
        dtypes = {name: each.stored for name, each in self._arrays.items()}
        self._empty_fields = (text_spec.width, vocab.pad_id, dtypes)
        self._first = np.cumsum(self.sizes) - self.sizes
        # Copies differ in size, so the keys of their rows are counted per corpus.
        by_corpus = np.arange(len(self.sizes)) << CORPUS_SHIFT
        self._first_key = by_corpus if copies else self._first
        documents = np.array([index.stream.num_documents for index in indices])
        self._first_document = np.cumsum(documents) - documents
        self._labels = [index.label_table(vocab.labels) for index in indices]
        self._names = [index.name_table(vocab.labels) for index in indices]
        texts = [[each.stream.fingerprint, each.fingerprint] for each in indices]
        words = [lexicon.lexicon_fingerprint(vocab.lexicon)] if vocab.lexicon else []
        repacked = [["copies", dupe_factor]] if copies else []
        mixed = []
        if MIXINGS[mixing].depends_on_batch:
            mixed = [["mixing", mixing, batch_size]]
        self.fingerprint = caches.fingerprint(
            [texts, *map(float, rates.values()), *words, *repacked, *mixed]
        )

    def rows(
        self,
        counter: np.ndarray,
        length: int | None = None,
        step: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Training rows of the counters g [n] int64; `length`: see `make_rows`.

        step: the step that reads them, if length buckets moved them to another one.
        """
        *places, backward = self._training_places(counter, step)
        order = {"seed": self.seed, "shuffle": not self.contiguous, "length": length}
        return self.make_rows(*places, **order, backward=backward)

    def texts(self, counter: np.ndarray) -> Example:
        """The text of training rows of the counters g [n] int64, before corruption."""
        *places, _ = self._training_places(counter, None)
        order = {"seed": self.seed, "shuffle": not self.contiguous}
        return self.raw_examples(*places, **order)[0]

    def _training_places(self, counter: np.ndarray, step: int | None) -> tuple:
        """corpus, position, epoch, step and direction, each [n], of training rows.

        The direction says whether they are read backward.
        """
        own_step, row = np.divmod(counter, self.batch_size)
        step = own_step if step is None else np.full_like(counter, step)
        if not self.contiguous:
            return *self._locate(counter), step, False
        corpus = self._contiguous_rows.corpus[row]
        number = self._contiguous_rows.number[row]
        epoch, position = np.empty((2, len(counter)), np.int64)
        for i, num_rows in enumerate(self._contiguous_rows.num_rows):
            own = corpus == i
            epoch[own], position[own] = contiguous_position(
                step[own],
                number[own],
                num_rows=num_rows,
                num=self.sizes[i],
                reverse=self.reverse,
            )
        backward = reads_backward(number, epoch) & self.reverse
        return corpus, position, epoch, step, backward

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, corpus by corpus, `size` rows at a time.

        With `TextSpec.contiguous`, row r continues from one chunk to the next; rows
        whose part of the text is over are empty.
        """
        if self.contiguous:
            for corpus, num in enumerate(self.sizes):
                steps = -(-num // size)
                for step in range(steps):
                    position = np.arange(size) * steps + step
                    yield self._rows_or_empty(corpus, position, position < num)
            return
        for begin in range(0, self.num_examples, size):
            yield self.evaluation_rows(
                np.arange(begin, min(begin + size, self.num_examples))
            )

    def evaluation_rows(
        self, number: np.ndarray, length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Examples by their numbers [n] in the order of the text, corpus by corpus.

        They have the corruption of evaluations. `length`: see `make_rows`.
        """
        corpus = np.searchsorted(self._first, number, side="right") - 1
        return self._evaluation_rows(corpus, number - self._first[corpus], length)

    def numbers(self, counter: np.ndarray) -> np.ndarray:
        """[n] int64: the rows that `rows` reads, if the text is packed once.

        The source is not contiguous.
        """
        corpus, position, epoch = self._locate(counter)
        row = self._shuffled(corpus, position, epoch, self.seed)
        return self._first[corpus] + row

    def empty_rows(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text."""
        example = empty_examples(num, *self._empty_fields)
        return self._corrupt(example, np.zeros(num, np.uint64), np.zeros(num, np.int32))

    def make_rows(
        self,
        corpus: np.ndarray,
        position: np.ndarray,
        epoch: np.ndarray,
        step: np.ndarray | int,
        *,
        seed: int,
        shuffle: bool,
        backward: np.ndarray | bool = False,
        length: int | None = None,
    ) -> dict[str, np.ndarray]:
        """The rows at positions of epochs of corpora (each [n] int64), at a step.

        Args:
          shuffle: whether positions are those of the epoch's shuffled order; else they
            are those of the text.
          backward: [n] bool, rows that read a stream from its end to its start.
          length: the length of the rows; None: that of the source.
        """
        example, row = self.raw_examples(
            corpus, position, epoch, step, seed=seed, shuffle=shuffle
        )
        example.label[backward] = BACKWARD
        example.number[:] = self._first[corpus] + position
        key = self._row_key(corpus, row, epoch, seed)
        return self._corrupt(example, key, example.number, length)

    def training_step(
        self, corpus: np.ndarray, position: np.ndarray, epoch: np.ndarray
    ) -> np.ndarray:
        """[n]: the steps of the training rows at positions of epochs of corpora."""
        counter = np.empty_like(position)
        for i, copies in enumerate(self._copies):
            own = self._rows_of(i, corpus)
            counter[own] = copies.counter(epoch[own], position[own])
        return self.schedule.counter(corpus, counter) // self.batch_size

    @functools.cached_property
    def schedule(self) -> MixtureSchedule:
        """Which corpus each row is from."""
        return make_schedule(self.rates.values(), self._rows_of_one_corpus)

    def check_batch_size(self) -> None:
        """Checks that each corpus has at least one row and enough text for its rows.

        Raises:
          UserError: the objective reads contiguous streams, and one has not.
        """
        if self.contiguous:
            assert self._contiguous_rows

    def counts(self) -> dict[str, int]:
        """Numbers of tokens, documents and examples, and the counts of the indices.

        For a mixture, also the tokens of each corpus.
        """
        of_corpora = {}
        if len(self.indices) > 1:
            of_corpora = {
                f"tokens of {name}": index.stream.num_tokens
                for name, index in zip(self.rates, self.indices, strict=True)
            }
        return {
            "tokens": sum(index.stream.num_tokens for index in self.indices),
            "documents": sum(index.stream.num_documents for index in self.indices),
            "examples": self.num_examples,
            **{
                name: sum(index.counts[name] for index in self.indices)
                for name in self.indices[0].counts
            },
            **of_corpora,
        }

    def raw_examples(self, corpus, position, epoch, step, *, seed: int, shuffle: bool):
        """The text of these rows before corruption, and their rows of the index [n]."""
        example = empty_examples(len(position), *self._empty_fields)
        example.corpus[:], example.step[:] = corpus, step
        row = position
        if shuffle:
            row = self._shuffled(corpus, position, epoch, seed)
        for i, index, own in self._indices_of(corpus, epoch):
            example.label[own] = self._labels[i][index.label[row[own]]]
            start_key = None
            if self._random_start:
                start_key = self._row_key(corpus[own], row[own], epoch[own], seed)
            names = [name for name in self._arrays if name in index.stream.arrays]
            fields = index.read(
                row[own], self._width, self.vocab.pad_id, start_key, names
            )
            fields["document"] += self._first_document[i]
            for name, array in fields.pop("arrays").items():
                if self._arrays[name].dtype is str:
                    array = self._names[i][array]
                example.arrays[name][own] = array
            for name, array in fields.items():
                getattr(example, name)[own] = array
        return example, row

    def locate_in_corpus(
        self, number: int, counter: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """epoch, position [n] int64 of the rows `counter` [n] of one corpus."""
        return self._copies[number].locate(counter)

    def _locate(self, counter: np.ndarray) -> tuple[np.ndarray, ...]:
        """corpus, position, epoch, each [n], of the counters g [n] int64."""
        corpus, corpus_counter = np.zeros_like(counter), counter
        if len(self.indices) > 1:
            corpus, corpus_counter = self.schedule.locate(counter)
        epoch, position = np.empty((2, len(counter)), np.int64)
        for i, copies in enumerate(self._copies):
            own = self._rows_of(i, corpus)
            epoch[own], position[own] = copies.locate(corpus_counter[own])
        return corpus, position, epoch

    def _shuffled(self, corpus, position, epoch, seed: int) -> np.ndarray:
        """[n] int64: rows of the index at positions of the epochs' shuffled orders."""
        row = position.copy()
        for _, index, own in self._indices_of(corpus, epoch):
            size = len(index.start)
            row[own] = permute(position[own], size, seed=seed, epoch=epoch[own])
        return row

    def _indices_of(
        self, corpus: np.ndarray, epoch: np.ndarray
    ) -> Iterator[tuple[int, Index, slice | np.ndarray]]:
        """(number of a corpus, one of its indices, the rows [n] that are in it)."""
        for i, copies in enumerate(self._copies):
            own = self._rows_of(i, corpus)
            if copies.num == 1:
                yield i, self.indices[i], own
                continue
            copy = copies.copy(epoch)
            for each in np.unique(copy[own]).tolist():
                yield i, copies.index(each), (copy == each) & (corpus == i)

    def _rows_of(self, number: int, corpus: np.ndarray) -> slice | np.ndarray:
        """Selects the rows of a corpus."""
        return slice(None) if len(self.indices) == 1 else corpus == number

    def _row_key(self, corpus, row, epoch, seed: int) -> np.ndarray:
        """[n] uint64: the keys of rows of the index in their epochs."""
        key_epoch = epoch % self.dupe_factor if self.dupe_factor else epoch
        return counter_rng.row_key(seed, key_epoch, self._first_key[corpus] + row)

    def _evaluation_rows(self, corpus, position: np.ndarray, length: int | None = None):
        """Rows at positions of the text, with the corruption of evaluations."""
        zero = np.zeros_like(position)
        step = zero + EVALUATION_STEP
        return self.make_rows(
            corpus,
            position,
            zero,
            step,
            seed=EVALUATION_SEED,
            shuffle=False,
            length=length,
        )

    def _rows_or_empty(self, corpus: int, position: np.ndarray, has_text: np.ndarray):
        """Evaluation rows of a corpus where `has_text` [n], empty ones elsewhere."""
        batch = self.empty_rows(len(position))
        found = self._evaluation_rows(
            np.full(has_text.sum(), corpus), position[has_text]
        )
        for name, rows in found.items():
            batch[name][has_text] = rows
        return batch

    @functools.cached_property
    def _contiguous_rows(self) -> ContiguousRows:
        located = self.schedule.locate(np.arange(self.batch_size))
        return divide_rows(*located, dict(zip(self.rates, self.sizes, strict=True)))

    def _corrupt(
        self, example: Example, key, number, length: int | None = None
    ) -> dict[str, np.ndarray]:
        length = length or self._length
        objective = self._objective
        rows = objective.corrupt(example, key, self.vocab, length)
        check_arrays(objective.name, rows, objective.batch_spec(length), len(key))
        return rows | {"example": example_ids(number)}
