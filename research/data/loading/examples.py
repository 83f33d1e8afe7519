"""Rows of a batch made from text: spans of streams in their order, then hidden."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.batch import (
    BACKWARD,
    EVALUATION_STEP,
    NEXT,
    NONADJACENT,
    OTHER_DOCUMENT,
    Example,
    VocabInfo,
)
from research.data import cache as caches
from research.data import counter_rng
from research.data.corpora import lexicon
from research.data.loading.permutation import follow, permute, schedule, turns
from research.data.store.example_index import Index
from research.data.store.stream import Stream
from research.errors import UserError

# n rows, N examples of an epoch, R raw tokens an example

EVALUATION_SEED = 0
"""Of the noise where text is read in order: the same in every run."""


class Part(NamedTuple):
    """One corpus of a mixture, or the only one."""

    stream: Stream
    index: Index


class Text:
    """The examples of one split: a `pipeline.Source`.

    Row g reads example g % N of epoch g // N, in that epoch's own order; in a mixture
    the schedule says whose turn it is, and each corpus counts its own rows and epochs.

    With `TextSpec.contiguous` there is another order, the only one that knows the batch
    size: row r of a step goes on where row r of the step before ended. Each row is of
    one corpus, by the schedule; the rows of a corpus divide its text evenly and read
    their parts in order, epoch after epoch, see `order.follow`. With `TextSpec.reverse`
    half of them read from the end of their part to its beginning; evaluations do not.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        objective: Any,
        vocab: VocabInfo,
        *,
        length: int,
        seed: int,
        rates: Mapping[str, float],
        batch: int,
        dupe_factor: int = 0,
    ):
        """TextSpec the parts at the rates, each in the other's order.

        Args:
          batch: rows of a step.
          dupe_factor: epoch e has the noise of epoch e % dupe_factor; 0: its own.
        """
        self.names = tuple(rates)
        self.parts = tuple(parts)
        self.vocab = vocab
        self.seed = seed
        self.batch = batch
        self.dupe_factor = dupe_factor
        self.contiguous = objective.text_spec(length).contiguous
        self.reverse = self.contiguous and objective.text_spec(length).reverse
        self.schedule = schedule(rates.values())
        self.sizes = np.array([len(part.index.start) for part in parts])
        self.num_examples = int(self.sizes.sum())
        self._objective = objective
        self._length = length
        self._width = objective.text_spec(length).length
        self._first = np.cumsum(self.sizes) - self.sizes
        documents = np.array([part.stream.num_documents for part in parts])
        self._first_document = np.cumsum(documents) - documents
        self._labels = [_translate(part, vocab) for part in parts]
        texts = [[part.stream.fingerprint, part.index.fingerprint] for part in parts]
        known = [lexicon.lexicon_fingerprint(vocab.lexicon)] if vocab.lexicon else []
        self.fingerprint = caches.fingerprint(
            [texts, *map(float, rates.values()), *known]
        )

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows of the counters g [n] int64."""
        step, row = np.divmod(counter, self.batch)
        if not self.contiguous:
            corpus, own = self.schedule.at(counter)
            epoch, place = np.divmod(own, self.sizes[corpus])
            return self.make(corpus, place, epoch, step, seed=self.seed, shuffle=True)
        corpus, own = (of_row[row] for of_row in self._streams[:2])
        epoch, place = np.empty((2, len(counter)), np.int64)
        for number, rows in enumerate(self._streams[2]):
            here = corpus == number
            epoch[here], place[here] = follow(
                step[here],
                own[here],
                rows=rows,
                num=self.sizes[number],
                reverse=self.reverse,
            )
        turned = turns(own, epoch) & self.reverse
        return self.make(
            corpus, place, epoch, step, seed=self.seed, shuffle=False, turned=turned
        )

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, corpus by corpus, `size` at a time.

        With `TextSpec.contiguous`, row r goes on from one time to the next; rows whose part
        of the text is over are empty.
        """
        if self.contiguous:
            for corpus, num in enumerate(self.sizes):
                steps = -(-num // size)
                for step in range(steps):
                    place = np.arange(size) * steps + step
                    yield self._spread(corpus, place, place < num)
            return
        for begin in range(0, self.num_examples, size):
            row = np.arange(begin, min(begin + size, self.num_examples))
            corpus = np.searchsorted(self._first, row, side="right") - 1
            yield self._evaluated(corpus, row - self._first[corpus])

    def empty(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text."""
        none = np.zeros(num, np.int32)
        key = np.zeros(num, np.uint64)
        return self._hide(no_text(num, self._width, self.vocab.pad_id), key, none)

    def make(
        self,
        corpus: np.ndarray,
        place: np.ndarray,
        epoch: np.ndarray,
        step: np.ndarray | int,
        *,
        seed: int,
        shuffle: bool,
        turned: np.ndarray | bool = False,
    ) -> dict[str, np.ndarray]:
        """The rows [n] at places of epochs of corpora (each [n] int64), at a step.

        turned: [n] bool, those that read a stream from its end on.
        """
        example, row = self.raw(corpus, place, epoch, step, seed=seed, shuffle=shuffle)
        example.label[turned] = BACKWARD
        noisy = epoch % self.dupe_factor if self.dupe_factor else epoch
        key = counter_rng.row_key(seed, noisy, self._first[corpus] + row)
        return self._hide(example, key, self._first[corpus] + place)

    def steps(self, corpus: np.ndarray, place: np.ndarray, epoch: np.ndarray):
        """[n]: the steps of the training rows at a place of an epoch of a corpus."""
        own = epoch * self.sizes[corpus] + place
        return self.schedule.counter(corpus, own) // self.batch

    def check(self) -> None:
        """Raises UserError: the batch has no streams for the text, or too many."""
        if self.contiguous:
            assert self._streams

    def counts(self) -> dict[str, int]:
        """Tokens and examples there are; tokens that are left out, or read again."""
        streams, indices = zip(*self.parts, strict=True)
        return {
            "tokens": sum(stream.num_tokens for stream in streams),
            "documents": sum(stream.num_documents for stream in streams),
            "examples": self.num_examples,
            **{
                name: sum(index.counts[name] for index in indices)
                for name in indices[0].counts
            },
        }

    def raw(self, corpus, place, epoch, step, *, seed: int, shuffle: bool):
        """The text of those rows before hiding, and their rows of the index [n]."""
        example = no_text(len(place), self._width, self.vocab.pad_id)
        example.corpus[:], example.step[:] = corpus, step
        row = place.copy()
        for number, part in enumerate(self.parts):
            own = slice(None) if len(self.parts) == 1 else corpus == number
            if shuffle:
                row[own] = permute(
                    place[own], self.sizes[number], seed=seed, epoch=epoch[own]
                )
            label = part.index.label[row[own]]
            example.label[own] = self._labels[number][label]
            found = _gather(part, row[own], self._width, self.vocab.pad_id)
            found["document"] += self._first_document[number]
            for name, array in found.items():
                getattr(example, name)[own] = array
        return example, row

    def _evaluated(self, corpus: np.ndarray, place: np.ndarray):
        """Rows of the one epoch of an evaluation."""
        none = np.zeros_like(place)
        step = none + EVALUATION_STEP
        return self.make(corpus, place, none, step, seed=EVALUATION_SEED, shuffle=False)

    def _spread(self, corpus: int, place: np.ndarray, here: np.ndarray):
        """Rows at places of a corpus, and empty ones where nothing is `here` [n]."""
        batch = self.empty(len(place))
        found = self._evaluated(np.full(here.sum(), corpus), place[here])
        for name, rows in found.items():
            batch[name][here] = rows
        return batch

    @functools.cached_property
    def _streams(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each row its corpus and its number there; of each corpus its rows."""
        corpus, own = self.schedule.at(np.arange(self.batch))
        rows = np.bincount(corpus, minlength=len(self.parts))
        for name, has, size in zip(self.names, rows, self.sizes, strict=True):
            if not 0 < has <= size:
                raise UserError(
                    f"train.batch={self.batch} gives {has} rows to {name}, which has "
                    f"{size} examples; this objective reads its text in as many "
                    "streams as it has rows, at least one and no more than examples"
                )
        return corpus, own, rows

    def _hide(self, example: Example, key, place) -> dict[str, np.ndarray]:
        rows = self._objective.corrupt(example, key, self.vocab, self._length)
        return rows | {"example": (place & np.iinfo(np.int32).max).astype(np.int32)}


def no_text(num: int, width: int, pad: int) -> Example:
    """Empty rows, to be filled or to be scored with weight 0."""
    token = np.full((num, width), pad, np.int32)
    none = np.zeros(num, np.int32)
    flags, step = (
        np.zeros((num, width), np.uint8),
        np.full(num, EVALUATION_STEP, np.int64),
    )
    rest = none.copy(), none.copy(), step, np.full(num, -1, np.int64)
    return Example(token, flags, none, none - 1, *rest)


def _translate(part: Part, vocab: VocabInfo) -> np.ndarray:
    """From an index's label to an example's; its last entry, for -1, is -1.

    Those of pairs stay, those of documents become places in `vocab.labels`.
    """
    if part.index.second is not None:
        return np.array([NEXT, OTHER_DOCUMENT, NONADJACENT], np.int32)
    names = part.stream.label_names
    return np.array([*map(vocab.labels.index, names), -1], np.int32)


def _gather(part: Part, row: np.ndarray, width: int, pad: int) -> dict[str, np.ndarray]:
    """Arrays of an example for rows [n] of the index; a pair's spans are joined."""
    stream, index = part
    start, first = index.start[row], index.length[row]
    length = first
    token, flags = stream.gather(start, length, width, pad)
    document = np.searchsorted(stream.document_offsets, start, side="right") - 1
    if index.second is not None:
        more = index.second_length[row]
        length = first + more
        second = stream.gather(index.second[row], more, width, pad)
        place = np.arange(width) - first[:, None]
        token, flags = (
            np.where(place < 0, one, np.take_along_axis(two, np.maximum(place, 0), 1))
            for one, two in zip((token, flags), second, strict=True)
        )
    found = {"token": token, "flags": flags, "length": length, "first_length": first}
    return found | {"document": document}
