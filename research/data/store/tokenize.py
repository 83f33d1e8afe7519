"""Writes text as a token stream: each distinct word is encoded once, then looked up.

The tokens, word bits and sentence traits of a unit depend only on the unit, so a batch
of documents becomes an array of unit numbers, and the rest is NumPy.
"""

# U units of the batch, T tokens, D documents of the batch

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from research.contract.batch import DOCUMENT, PARAGRAPH, SENTENCE, WORD
from research.contract.errors import UserError
from research.data.documents import ArrayType, Document
from research.data.progress import progress
from research.data.read import sentences
from research.data.read.corpus import SPLITS, Corpus, no_text
from research.data.read.sentences import BLANK, NEWLINE
from research.data.store.annotations import annotate, label_number
from research.data.tokenize.vocabulary import Vocabulary
from research.data.work_shards import ShardResult

FEW_DOCUMENTS = 50
"""Of so few a share has none: they are told that a document is held out whole."""
MAX_BATCH_CHARS = 2**19
"""Number of characters of text that are tokenized together."""
MAX_KNOWN_UNITS = 2**19
"""The most distinct units that are kept before all are dropped."""
MAX_KNOWN_TOKENS = 2**22
"""The most tokens of known units: a span of several may be long."""
VERSION = 1
"""Raise it when a change here makes another stream of the same text."""
SHARD_FILES = ("token", "flags", "documents", "sentences", "labels")
"""Files of every shard, which also has a file for each array of its corpus."""


class Tokens(NamedTuple):
    """The tokens of some documents, concatenated."""

    token: np.ndarray  # [T] int32
    flags: np.ndarray  # [T] uint8
    documents: np.ndarray  # [D] int64: the token at which each starts
    sentences: np.ndarray  # int64: the token at which each starts


class StreamTokenizer:
    """Tokenizes documents, and keeps the tokens of known units between calls."""

    def __init__(
        self, vocabulary: Vocabulary, separator_ids: Sequence[int], lines: bool = False
    ):
        """Begins with no text.

        Args:
          lines: put the separator after each line, not after each document.
        """
        self.vocabulary = vocabulary
        self.separator_ids = list(separator_ids)
        self.lines = lines
        self._reset()

    def __call__(self, texts: Iterable[str]) -> Tokens:
        """The tokens of the texts, each followed by the separator.

        A text that a normalizer removes completely is one unknown token.
        """
        size = len(self._token)
        if len(self._numbers) > MAX_KNOWN_UNITS or size > MAX_KNOWN_TOKENS:
            self._reset()
        units, documents = [], []
        for text in texts:
            documents.append(len(units))
            if self.vocabulary.keep_whitespace:
                units += self.vocabulary.split(text)
            else:
                for paragraph in text.split("\n"):
                    units += self.vocabulary.split(paragraph)
                    units.append(_LINE_END)
            if self.separator_ids and not self.lines:
                units.append(_SEPARATOR)
        number = np.fromiter(
            map(self._numbers.__getitem__, units), np.int64, len(units)
        )
        self._encode_new_units()
        starts = np.array(documents, np.int64)
        if self.vocabulary.model.drops_units:
            has_text = self._traits[number] & BLANK == 0
            empty = ~np.logical_or.reduceat(has_text, starts)
            number[starts[empty]] = self._numbers[_NOTHING]
        return self._look_up(number, starts)

    def _look_up(self, number: np.ndarray, documents: np.ndarray) -> Tokens:
        """The tokens of units.

        Args:
          number: [U] int64, the number of each unit.
          documents: [D] int64, the indices into `number` at which they start.
        """
        count = self._count[number]
        first = np.cumsum(count) - count  # [U]: the token at which a unit starts
        total = int(count.sum())
        index = np.repeat(self._first[number] - first, count) + np.arange(total)
        flags = self._flags[index]
        starts, paragraphs = sentences.find_starts(self._traits[number], documents)
        flags[first[starts]] |= SENTENCE
        flags[first[paragraphs]] |= PARAGRAPH
        flags[first[documents]] |= DOCUMENT
        found = np.flatnonzero(flags & SENTENCE)
        return Tokens(self._token[index], flags, first[documents], found)

    def _reset(self) -> None:
        """Drops all units except those that are not text of a document."""
        known = {_SEPARATOR: len(self.separator_ids), _NOTHING: 1}
        if not self.vocabulary.keep_whitespace:
            known[_LINE_END] = len(self.separator_ids) * self.lines
        self._numbers = _UnitNumbers(known)
        unknown = self.vocabulary.vocab.unk_id
        self._token = np.array([*self.separator_ids, unknown], np.int32)
        self._flags = np.array([0] * len(self.separator_ids) + [WORD], np.uint8)
        self._count = np.array(list(known.values()), np.int64)
        self._first = np.array([0, len(self.separator_ids), 0][: len(known)], np.int64)
        self._traits = np.array([BLANK, BLANK, BLANK | NEWLINE][: len(known)], np.uint8)

    def _encode_new_units(self) -> None:
        """Appends the tokens of the units that have just been numbered."""
        new, self._numbers.new = self._numbers.new, []
        if not new:
            return
        encoded = self.vocabulary.encode_units(new)
        first = len(self._token) + np.cumsum(encoded.count) - encoded.count
        joins = self.vocabulary.joins_units
        traits_of = sentences.span_traits if joins else sentences.sentence_traits
        traits = np.fromiter(map(traits_of, new), np.uint8, len(new))
        traits[encoded.count == 0] = BLANK
        self._token = np.concatenate([self._token, encoded.token])
        self._flags = np.concatenate([self._flags, encoded.flags])
        self._count = np.concatenate([self._count, encoded.count])
        self._first = np.concatenate([self._first, first])
        self._traits = np.concatenate([self._traits, traits])


_SEPARATOR = " "
"""The unit between documents; no unit of a text is white space without a prefix."""
_NOTHING = sentences.NO_SPACE
"""The unit of a text without tokens; no unit of a text is a prefix alone."""
_LINE_END = sentences.NO_SPACE + "\n"
"""The unit between paragraphs; where white space is not kept it has no tokens."""


class _UnitNumbers(dict):
    """Unit to number; a new unit gets the next number, after those of `known`."""

    def __init__(self, known: Iterable[str]):
        super().__init__({unit: number for number, unit in enumerate(known)})
        self.new: list[str] = []

    def __missing__(self, unit: str) -> int:
        self[unit] = number = len(self)
        self.new.append(unit)
        return number


def write_stream(
    folder: Path,
    corpus: Corpus,
    split: str,
    tokenizer: StreamTokenizer,
    shard_tokens: int,
) -> dict:
    """Writes the shards of a stream into a folder, and returns its meta data.

    Raises:
      UserError: see `annotate`.
    """
    assert not corpus.arrays.keys() & {*SHARD_FILES}, corpus.arrays
    vocabulary, vocab = tokenizer.vocabulary, tokenizer.vocabulary.vocab
    dtype = np.uint16 if vocab.size <= 2**16 else np.uint32
    label_numbers: dict[str, int] = {}
    shards, unknown, began = [], 0, time.monotonic()
    shard = None
    with progress(f"tokens of {corpus.name}, {split}", corpus.size or None) as report:
        for batch in _batches(corpus.documents(split)):
            tokens = tokenizer(document.text for document in batch)
            labels = [label_number(label_numbers, each.label) for each in batch]
            arrays = annotate(
                tokens.flags,
                tokens.documents,
                batch,
                vocabulary,
                corpus.arrays,
                label_numbers,
                lines=tokenizer.lines,
            )
            if shard is None or shard.tokens >= shard_tokens:
                shard = _Shard(folder, f"{len(shards):05d}", dtype)
                shards.append(shard)
            shard.append(tokens, labels, arrays)
            unknown += int((tokens.token == vocab.unk_id).sum())
            done = sum(shard.tokens for shard in shards)
            rate = done / (time.monotonic() - began) / 1e6
            note = f"{done / 1e6:.1f} M tokens, {rate:.1f} M/s"
            report(batch[-1].amount_read, note)
    return {
        "shards": [shard.meta() for shard in shards],
        "dtype": np.dtype(dtype).name,
        "unknown": unknown,
        "separator_length": len(tokenizer.separator_ids),
        "label_names": list(label_numbers),
    }


def join_streams(
    folder: Path, results: Sequence[ShardResult], arrays: Mapping[str, ArrayType]
) -> dict:
    """Joins the streams of work shards in a folder, and returns the meta data.

    Files are linked, not copied, except for labels, which are renumbered in the order
    of their first documents in the joined stream.

    Args:
      results: the folder of each work shard's stream, and what `write_stream` returned.
      arrays: the arrays of the corpus.
    """
    renumbered = [name for name, each in arrays.items() if each.dtype is str]
    renumbered = [f"{name}.bin" for name in ["labels", *renumbered]]
    label_numbers: dict[str, int] = {}
    shards = []
    for source, meta in results:
        numbers = [label_number(label_numbers, name) for name in meta["label_names"]]
        renumber = np.array([*numbers, -1], np.int32)  # -1 (no label) is the last index
        for shard in meta["shards"]:
            old, new = source / shard["name"], folder / f"{len(shards):05d}"
            new.mkdir()
            for file in old.iterdir():
                if file.name not in renumbered:
                    os.link(file, new / file.name)
            for name in renumbered:
                numbered = np.fromfile(old / name, np.int32)
                renumber[numbered].tofile(new / name)
            shards.append(shard | {"name": new.name})
    (_, first), *_ = results
    return {
        "shards": shards,
        "dtype": first["dtype"],
        "unknown": sum(meta["unknown"] for _, meta in results),
        "separator_length": first["separator_length"],
        "label_names": list(label_numbers),
    }


def check_stream(corpus: Corpus, split: str, meta: dict) -> dict:
    """The meta data of a stream; prints how many tokens are unknown text.

    Raises:
      UserError: the split has no documents, or the corpus has none.
    """
    if not meta["shards"]:
        count = sum(1 for name in SPLITS for _ in corpus.documents(name))
        if not count:
            raise no_text(corpus)
        division = f": {corpus.division}" if corpus.division else ""
        noun = "document" if count == 1 else "documents"
        advice = (
            "give more text, or a larger data.held_out or data.split if these divide it"
            if count > FEW_DOCUMENTS
            else "a document is held out whole, so give more or shorter documents, or "
            f"text for it alone (data.{split})"
        )
        raise UserError(
            f"{corpus.name!r} has {count} {noun}, none in the {split} split"
            f"{division}; {advice}"
        )
    if meta["unknown"]:
        total = sum(shard["tokens"] for shard in meta["shards"])
        counts = f"{meta['unknown']} of {total} tokens are unknown text"
        print(f"{corpus.name}, {split}: {counts}", file=sys.stderr)
    return meta


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Batches of at most `MAX_BATCH_CHARS` characters, or of one document."""
    batch, size = [], 0
    for document in documents:
        if batch and size + len(document.text) > MAX_BATCH_CHARS:
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document.text)
    if batch:
        yield batch


class _Shard:
    """The files of one shard, to which batches are appended."""

    def __init__(self, folder: Path, name: str, dtype: type):
        self.name = name
        self.tokens = self.documents = self.sentences = 0
        self._dtype = dtype
        self._folder = folder / name
        self._folder.mkdir()

    def append(
        self, tokens: Tokens, labels: Sequence[int], arrays: Mapping[str, np.ndarray]
    ) -> None:
        own = (
            tokens.token.astype(self._dtype),
            tokens.flags,
            tokens.documents + self.tokens,
            tokens.sentences + self.tokens,
            np.array(labels, np.int32),
        )
        named = dict(zip(SHARD_FILES, own, strict=True))
        for name, array in (named | arrays).items():
            with (self._folder / f"{name}.bin").open("ab") as file:
                array.tofile(file)
        self.tokens += len(tokens.token)
        self.documents += len(tokens.documents)
        self.sentences += len(tokens.sentences)

    def meta(self) -> dict:
        names = ("name", "tokens", "documents", "sentences")
        return {name: getattr(self, name) for name in names}
