"""Text to a token stream on disk: each distinct word is encoded once, then looked up.

Tokens, word bits and sentence traits of a unit depend on the unit alone, so a batch of
documents is a list of numbers of units, and the rest is NumPy.
"""

# U units of the batch, N distinct units, T tokens, D documents of the batch

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.batch import DOCUMENT, PARAGRAPH, SENTENCE
from research.data.corpora.files import Corpus, Document
from research.data.corpora.sentences import ENDS, OPENS, traits, units
from research.data.progress import progress
from research.data.tokenizers.vocabulary import Vocabulary
from research.errors import UserError

BATCH = 2**19
"""Characters of text that are tokenised together."""
DISTINCT = 2**19
"""Distinct units that are remembered before all are forgotten."""
RULES = 1
"""To be raised when a change here makes another stream of the same text."""
FILES = ("token", "flags", "documents", "sentences", "labels")


class Tokens(NamedTuple):
    """The tokens of some documents, one after the other."""

    token: np.ndarray  # [T] int32
    flags: np.ndarray  # [T] uint8
    documents: np.ndarray  # [D] int64: where each starts
    sentences: np.ndarray  # int64: where each starts


class Tokeniser:
    """Turns documents into tokens and flags, and remembers words between calls."""

    def __init__(self, vocabulary: Vocabulary, between: Sequence[int]):
        self._vocabulary = vocabulary
        self._between = list(between)
        self._forget()

    def __call__(self, texts: Iterable[str]) -> Tokens:
        """The tokens of texts, each followed by the tokens between documents."""
        if len(self._known) > DISTINCT:
            self._forget()
        words, paragraphs, documents = [], [], []
        for text in texts:
            documents.append(len(words))
            for paragraph in text.split("\n"):
                found = units(paragraph)
                if found:
                    paragraphs.append(len(words))
                    words += found
            if self._between:
                words.append(_BETWEEN)
        number = np.fromiter(map(self._known.__getitem__, words), np.int64, len(words))
        self._learn()
        return self._look_up(number, paragraphs, documents)

    def _look_up(
        self, number: np.ndarray, paragraphs: list[int], documents: list[int]
    ) -> Tokens:
        """The tokens of unit numbers [U]; paragraphs and documents are places in it."""
        count = self._count[number]
        first = np.cumsum(count) - count  # [U]: the token at which a unit starts
        total = int(count.sum())
        place = np.repeat(self._first[number] - first, count) + np.arange(total)
        flags = self._flags[place]
        trait = self._traits[number]
        starts = np.zeros(len(number), bool)
        starts[1:] = (trait[:-1] & ENDS > 0) & (trait[1:] & OPENS > 0)
        starts[paragraphs] = True
        flags[first[starts]] |= SENTENCE
        flags[first[paragraphs]] |= PARAGRAPH
        flags[first[documents]] |= DOCUMENT
        return Tokens(self._token[place], flags, first[documents], first[starts])

    def _forget(self) -> None:
        self._known = _Numbers()
        self._token = np.array(self._between, np.int32)
        self._flags = np.zeros(len(self._between), np.uint8)
        self._count = np.array([len(self._between)], np.int64)
        self._first = np.zeros(1, np.int64)
        self._traits = np.zeros(1, np.uint8)

    def _learn(self) -> None:
        """Encodes the units that were met for the first time."""
        fresh, self._known.fresh = self._known.fresh, []
        if not fresh:
            return
        found = self._vocabulary.encode_units(fresh)
        first = len(self._token) + np.cumsum(found.count) - found.count
        trait = np.fromiter(map(traits, fresh), np.uint8, len(fresh))
        self._token = np.concatenate([self._token, found.token])
        self._flags = np.concatenate([self._flags, found.flags])
        self._count = np.concatenate([self._count, found.count])
        self._first = np.concatenate([self._first, first])
        self._traits = np.concatenate([self._traits, trait])


_BETWEEN = " "
"""The unit between documents; no word is white space."""


class _Numbers(dict):
    """Unit to number; a new unit gets the next one. `_BETWEEN` is number 0."""

    def __init__(self):
        super().__init__({_BETWEEN: 0})
        self.fresh: list[str] = []

    def __missing__(self, unit: str) -> int:
        self[unit] = number = len(self)
        self.fresh.append(unit)
        return number


def write(
    folder: Path,
    corpus: Corpus,
    split: str,
    vocabulary: Vocabulary,
    between: Sequence[int],
    shard_tokens: int,
) -> dict:
    """Writes the shards of a stream into a folder; returns what its meta says."""
    vocab = vocabulary.vocab
    dtype = np.uint16 if vocab.size <= 2**16 else np.uint32
    tokenise = Tokeniser(vocabulary, between)
    names: dict[str, int] = {}
    shards, unknown, began = [], 0, time.monotonic()
    shard = None
    with progress(f"tokens of {corpus.name}, {split}", corpus.size or None) as report:
        for batch in _batches(corpus.documents(split)):
            found = tokenise(document.text for document in batch)
            labels = [_number(names, document.label) for document in batch]
            if shard is None or shard.tokens >= shard_tokens:
                shard = _Shard(folder, f"{len(shards):05d}", dtype)
                shards.append(shard)
            shard.append(found, labels)
            unknown += int((found.token == vocab.unk_id).sum())
            done = sum(shard.tokens for shard in shards)
            rate = done / (time.monotonic() - began) / 1e6
            report(batch[-1].read, f"{done / 1e6:.1f} M tokens, {rate:.1f} M/s")
    return {
        "shards": [shard.meta() for shard in shards],
        "dtype": np.dtype(dtype).name,
        "unknown": unknown,
        "separator_length": len(between),
        "label_names": list(names),
    }


def join(folder: Path, portions: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict:
    """The stream of portions that were written into folders of their own.

    Their files are linked, not copied, but for labels, which are numbered anew: in the
    order in which they come up in the whole.

    Args:
      portions: the folder of each, and what `write` returned for it.
    """
    names: dict[str, int] = {}
    shards = []
    for source, meta in portions:
        number = [_number(names, name) for name in meta["label_names"]]
        renumber = np.array([*number, -1], np.int32)  # of -1, no label: the last
        for shard in meta["shards"]:
            old, new = source / shard["name"], folder / f"{len(shards):05d}"
            new.mkdir()
            for file in old.iterdir():
                if file.stem != "labels":
                    os.link(file, new / file.name)
            labels = np.fromfile(old / "labels.bin", np.int32)
            renumber[labels].tofile(new / "labels.bin")
            shards.append(shard | {"name": new.name})
    (_, first), *_ = portions
    unknown = sum(meta["unknown"] for _, meta in portions)
    return {
        "shards": shards,
        "dtype": first["dtype"],
        "unknown": unknown,
        "separator_length": first["separator_length"],
        "label_names": list(names),
    }


def checked(corpus: Corpus, split: str, meta: dict) -> dict:
    """The meta of a stream; prints what became unknown.

    Raises:
      UserError: the split has no documents.
    """
    if not meta["shards"]:
        raise UserError(
            f"data.corpus {corpus.name!r} has no documents in its {split} split; "
            "give more text or a larger data.held_out"
        )
    if meta["unknown"]:
        done = sum(shard["tokens"] for shard in meta["shards"])
        said = f"{meta['unknown']} of {done} tokens are unknown text"
        print(f"{corpus.name}, {split}: {said}", file=sys.stderr)
    return meta


def _number(names: dict[str, int], label: str | None) -> int:
    """The number of a label, a new one's the next; -1: no label."""
    return -1 if label is None else names.setdefault(label, len(names))


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Documents together while they are at most `BATCH` characters, or one of them."""
    batch, size = [], 0
    for document in documents:
        if batch and size + len(document.text) > BATCH:
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document.text)
    if batch:
        yield batch


class _Shard:
    """Files of one shard, appended to batch by batch."""

    def __init__(self, folder: Path, name: str, dtype: type):
        self.name = name
        self.tokens = self.documents = self.sentences = 0
        self._dtype = dtype
        self._folder = folder / name
        self._folder.mkdir()

    def append(self, found: Tokens, labels: Sequence[int]) -> None:
        arrays = (
            found.token.astype(self._dtype),
            found.flags,
            found.documents + self.tokens,
            found.sentences + self.tokens,
            np.array(labels, np.int32),
        )
        for name, array in zip(FILES, arrays, strict=True):
            with (self._folder / f"{name}.bin").open("ab") as file:
                array.tofile(file)
        self.tokens += len(found.token)
        self.documents += len(found.documents)
        self.sentences += len(found.sentences)

    def meta(self) -> dict:
        names = ("name", "tokens", "documents", "sentences")
        return {name: getattr(self, name) for name in names}
