"""Rows of a batch made from text: spans of streams in their order, then hidden."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.batch import LAST_STEP, Example, Symbols
from research.data import cache as caches
from research.data import corpora, noise
from research.data.index import Index
from research.data.index import build as build_index
from research.data.order import permute, schedule
from research.data.stream import Stream
from research.data.stream import build as build_stream
from research.data.vocabulary import Vocabulary, load_or_train
from research.errors import UserError, unknown

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
    """

    def __init__(
        self,
        parts: Sequence[Part],
        objective: Any,
        symbols: Symbols,
        *,
        length: int,
        seed: int,
        rates: Mapping[str, float],
    ):
        """Reads the parts at the rates, each in the other's order."""
        self.names = tuple(rates)
        self.parts = tuple(parts)
        self.symbols = symbols
        self.seed = seed
        self.schedule = schedule(rates.values())
        self.sizes = np.array([len(part.index.start) for part in parts])
        self.num_examples = int(self.sizes.sum())
        self._objective = objective
        self._length = length
        self._width = objective.reads(length).length
        self._first = np.cumsum(self.sizes) - self.sizes
        self._labels = [_translate(part.stream, symbols) for part in parts]
        texts = [[part.stream.fingerprint, part.index.fingerprint] for part in parts]
        self.fingerprint = caches.fingerprint([texts, *map(float, rates.values())])

    def rows(self, counter: np.ndarray) -> dict[str, np.ndarray]:
        """Training rows of the counters g [n] int64."""
        corpus, own = self.schedule.at(counter)
        epoch, place = np.divmod(own, self.sizes[corpus])
        return self.make(corpus, place, epoch, seed=self.seed, shuffle=True)

    def in_order(self, size: int) -> Iterator[dict[str, np.ndarray]]:
        """Each example once, corpus by corpus, `size` at a time."""
        for begin in range(0, self.num_examples, size):
            row = np.arange(begin, min(begin + size, self.num_examples))
            corpus = np.searchsorted(self._first, row, side="right") - 1
            place, epoch = row - self._first[corpus], np.zeros_like(row)
            yield self.make(corpus, place, epoch, seed=EVALUATION_SEED, shuffle=False)

    def empty(self, num: int) -> dict[str, np.ndarray]:
        """Rows without text."""
        none = np.zeros(num, np.int32)
        key = np.zeros(num, np.uint64)
        return self._hide(no_text(num, self._width, self.symbols.pad), key, none)

    def make(
        self,
        corpus: np.ndarray,
        place: np.ndarray,
        epoch: np.ndarray,
        *,
        seed: int,
        shuffle: bool,
    ) -> dict[str, np.ndarray]:
        """The rows [n] at a place of an epoch of a corpus, each [n] int64."""
        example, row = self.raw(corpus, place, epoch, seed=seed, shuffle=shuffle)
        key = noise.row_key(seed, epoch, self._first[corpus] + row)
        return self._hide(example, key, self._first[corpus] + place)

    def counts(self) -> dict[str, int]:
        """Tokens and examples there are; tokens that are left out, or read again."""
        streams, indices = zip(*self.parts, strict=True)
        return {
            "tokens": sum(stream.num_tokens for stream in streams),
            "documents": sum(stream.num_documents for stream in streams),
            "examples": self.num_examples,
            "skipped": sum(index.skipped for index in indices),
            "repeated": sum(index.repeated for index in indices),
        }

    def raw(self, corpus, place, epoch, *, seed: int, shuffle: bool):
        """The text of those rows before hiding, and their rows of the index [n]."""
        example = no_text(len(place), self._width, self.symbols.pad)
        row = place.copy()
        for number, (stream, index) in enumerate(self.parts):
            own = slice(None) if len(self.parts) == 1 else corpus == number
            if shuffle:
                row[own] = permute(
                    place[own], self.sizes[number], seed=seed, epoch=epoch[own]
                )
            start, length = index.start[row[own]], index.length[row[own]]
            example.length[own] = example.first[own] = length
            example.source[own] = number
            example.label[own] = self._labels[number][index.label[row[own]]]
            example.token[own], example.flags[own] = stream.gather(
                start, length, self._width, self.symbols.pad
            )
        return example, row

    def _hide(self, example: Example, key, place) -> dict[str, np.ndarray]:
        rows = self._objective.corrupt(example, key, self.symbols, self._length)
        return rows | {"example": (place & np.iinfo(np.int32).max).astype(np.int32)}


def no_text(num: int, width: int, pad: int) -> Example:
    """Empty rows, to be filled or to be scored with weight 0."""
    token = np.full((num, width), pad, np.int32)
    none = np.zeros(num, np.int32)
    flags, step = np.zeros((num, width), np.uint8), np.full(num, LAST_STEP, np.int64)
    return Example(token, flags, none, none - 1, none.copy(), none.copy(), step)


def _translate(stream: Stream, symbols: Symbols) -> np.ndarray:
    """From a stream's label to that of `symbols`; its last entry, for -1, is -1."""
    return np.array([*map(symbols.labels.index, stream.label_names), -1], np.int32)


class Opened(NamedTuple):
    """Two splits of a corpus or a mixture, made of one vocabulary."""

    vocabulary: Vocabulary
    symbols: Symbols
    train: Text
    eval: Text


def open_text(config: Any, objective: Any) -> Opened:
    """Corpora, vocabulary, streams and indices as config.data says; cached.

    Raises:
      UserError: a value of config.data that is not right, or a split without text.
    """
    data = config.data
    _check(data)
    rates = rates_of(config)
    assert rates, data.task
    schedule(rates.values())  # a wrong rate is told before the work is done
    cache = caches.root(data.cache_dir)
    loaded = [corpora.load(name, data.held_out) for name in rates]
    vocabulary = load_or_train(data, corpora.join(loaded), cache)
    reads = objective.reads(data.length)

    def parts(split: str) -> list[Part]:
        streams = [
            build_stream(corpus, split, vocabulary, cache, data.separator)
            for corpus in loaded
        ]
        return [
            Part(stream, build_index(stream, reads, data.stride, cache))
            for stream in streams
        ]

    train, held_out = parts(data.train_split), parts(data.eval_split)
    labels = {name for part in train + held_out for name in part.stream.label_names}
    symbols = vocabulary.symbols._replace(labels=tuple(sorted(labels)))

    def text(parts: list[Part]) -> Text:
        return Text(
            parts,
            objective,
            symbols,
            length=data.length,
            seed=config.seed,
            rates=rates,
        )

    return Opened(vocabulary, symbols, text(train), text(held_out))


def rates_of(config: Any) -> dict[str, float]:
    """The corpora that config.data names, and their rates; {}: a task that is not ours.

    Ours are `corpus:objective`, `mix:objective` and those with `:length`, for the
    config's own objective and length.
    """
    data = config.data
    corpus = data.corpus
    if data.task:
        ending = f":{config.objective.name}"
        corpus = data.task.removesuffix(f":{data.length}").removesuffix(ending)
        if data.task not in (corpus + ending, f"{corpus}{ending}:{data.length}"):
            return {}
    if data.mixture and (corpus == "mix" or not data.task):
        return dict(sorted(data.mixture.items()))
    return {corpus: 1.0}


def _check(data: Any) -> None:
    for key in ("train_split", "eval_split"):
        if data[key] not in corpora.SPLITS:
            raise unknown(f"data.{key}", data[key], corpora.SPLITS)
    if data.length < 1:
        raise UserError(f"data.length is {data.length}; it is at least 1")
    if data.stride < 0:
        raise UserError(f"data.stride is {data.stride}; it is 0 or more")
