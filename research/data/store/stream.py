"""A token stream on disk: tokens, flags, and starts of documents and sentences."""

# B batch, R raw tokens an example, T tokens, D documents

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from research.contract.batch import PART, no_value
from research.contract.errors import UserError
from research.data import work_shards
from research.data.cache import get_or_create, read_meta
from research.data.documents import ArrayType
from research.data.progress import progress
from research.data.read.corpus import Corpus
from research.data.store import tokenize
from research.data.store.ranges import in_range
from research.data.tokenize.vocabulary import Vocabulary

MAX_CHECKED = 2**24
"""The most tokens that `Stream.find_damage` reads."""
COUNTED_TOGETHER = 2**22
"""Tokens that `Stream.count_tokens` reads at a time, to save memory."""


@dataclasses.dataclass(frozen=True)
class Stream:
    """A memory-mapped stream; token positions run over all shards, in order.

    Document d is the tokens document_offsets[d] to document_offsets[d + 1], of which
    the last `separator_length` are the separator. Its last sentence includes the
    separator too.
    """

    path: Path
    meta: dict
    arrays: Mapping[str, ArrayType]  # the arrays of its corpus
    vocabulary_size: int  # ids of the vocabulary that reads it: two that differ only in
    # sentinels share a stream

    @staticmethod
    def open(
        path: Path, arrays: Mapping[str, ArrayType], vocabulary_size: int
    ) -> "Stream":
        """The stream in a folder.

        Args:
          arrays, vocabulary_size: the stream's fields.

        Raises:
          UserError: the folder does not hold a complete stream.
        """
        meta = read_meta(Path(path))
        if meta is None:
            raise UserError(
                f"{path}: not a complete token stream; delete it and run again"
            )
        return Stream(Path(path), meta, arrays, vocabulary_size)

    @property
    def fingerprint(self) -> str:
        """The hash of everything that the stream depends on."""
        return self.path.name

    @property
    def num_tokens(self) -> int:
        """T, including separators."""
        return sum(shard["tokens"] for shard in self.meta["shards"])

    @property
    def num_documents(self) -> int:
        return sum(shard["documents"] for shard in self.meta["shards"])

    @property
    def num_unknown(self) -> int:
        """The number of tokens of text that is unknown to the vocabulary."""
        return self.meta["unknown"]

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels of its documents, in the order of their first documents."""
        return tuple(self.meta["label_names"])

    @property
    def separator_length(self) -> int:
        """Tokens of the separator after each document: 1 or 0."""
        return self.meta["separator_length"]

    @functools.cached_property
    def shard_offsets(self) -> np.ndarray:
        """[shards + 1] int64: no document and no example crosses an offset."""
        tokens = [shard["tokens"] for shard in self.meta["shards"]]
        return np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64)

    @functools.cached_property
    def document_offsets(self) -> np.ndarray:
        """[D + 1] int64: where each document starts, and the end."""
        return self._offsets("documents")

    @functools.cached_property
    def sentence_offsets(self) -> np.ndarray:
        """[sentences + 1] int64: where each sentence starts, and the end."""
        return self._offsets("sentences")

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """[D] int32: indices into `label_names`; -1: no label."""
        return np.concatenate(self._map_shards("labels", np.int32))

    @functools.cached_property
    def part_offsets(self) -> np.ndarray:
        """int64: where the parts of documents start, except the first of each."""
        of_shards = zip(self._flags, self.shard_offsets, strict=False)
        found = [np.flatnonzero(flags & PART) + first for flags, first in of_shards]
        return np.concatenate(found)

    @functools.cached_property
    def _part_starts(self) -> np.ndarray:
        """int64: where all parts of documents start."""
        return np.union1d(self.document_offsets[:-1], self.part_offsets)

    def count_tokens(self) -> np.ndarray:
        """[V] int64: how often each id occurs, separators included.

        All tokens are read; `token_counts` keeps the result.

        Raises:
          UserError: a token is not in the vocabulary.
        """
        count = np.zeros(self.vocabulary_size, np.int64)
        with progress("counting tokens", self.num_tokens) as report:
            for shard in self._tokens:
                for begin in range(0, len(shard), COUNTED_TOGETHER):
                    token = shard[begin : begin + COUNTED_TOGETHER]
                    self._check_tokens(token)
                    count += np.bincount(token, minlength=len(count))
                    done = int(count.sum())
                    report(done, f"{done / 1e6:.1f} M tokens")
        return count

    def count_labels(self, array: str = "labels") -> np.ndarray:
        """[labels] int64: how often each of `label_names` occurs.

        Args:
          array: an array of names, to count its values; "labels": those of documents.
        """
        size = len(self.label_names)
        numbers = self._map_shards(array, np.int32)
        counts = (np.bincount(each[each >= 0], minlength=size) for each in numbers)
        return sum(counts, np.zeros(size, np.int64))

    def find_damage(self) -> str:
        """The first file with a number that is out of range; "" if there is none.

        All offsets and labels are read, and MAX_CHECKED tokens; `gather` checks the
        tokens of each row.
        """
        ranges = {
            "token": (self._first_tokens(), 0, self.vocabulary_size),
            "labels": (self._map_shards("labels", np.int32), -1, len(self.label_names)),
        }
        for name, array_type in self.arrays.items():
            if array_type.dtype is str:
                numbers = self._map_shards(name, array_type.stored)
                ranges[name] = numbers, -1, len(self.label_names)
        for name, (arrays, low, high) in ranges.items():
            for shard, array in zip(self.meta["shards"], arrays, strict=True):
                if not in_range(array, low, high):
                    return _out_of_range(shard, name)
        for name in ("documents", "sentences"):
            arrays = self._map_shards(name, np.int64)
            for shard, array in zip(self.meta["shards"], arrays, strict=True):
                if not in_range(array, 0, shard["tokens"] + 1, ascending=True):
                    return _out_of_range(shard, name)
        return ""

    def _first_tokens(self) -> list[np.ndarray]:
        """The first tokens of each shard, MAX_CHECKED in all."""
        most = -(-MAX_CHECKED // max(1, len(self._tokens)))
        return [token[:most] for token in self._tokens]

    def gather(
        self, start: np.ndarray, length: np.ndarray, width: int, pad: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows of tokens [B, R] int32 and their flags [B, R] uint8; R is `width`.

        Args:
          start, length: [B] int64, in tokens; a row lies within one shard.
          pad: the token beyond `length`, where the flags are 0.

        Raises:
          UserError: a token is not in the vocabulary.
        """
        token = np.empty((len(start), width), np.int32)
        flags = np.empty((len(start), width), np.uint8)
        self._gather(
            [(self._tokens, token, pad), (self._flags, flags, 0)], start, length
        )
        self._check_tokens(token)
        return token, flags

    def _check_tokens(self, token: np.ndarray) -> None:
        """Raises UserError: a token is not in the vocabulary."""
        if token.max(initial=0) >= self.vocabulary_size:
            raise UserError(
                f"{self.path}: the stream is damaged (it has tokens beyond its "
                "vocabulary); delete this folder, which the next start makes again"
            )

    def gather_arrays(
        self, names: Sequence[str], start: np.ndarray, length: np.ndarray, width: int
    ) -> dict[str, np.ndarray]:
        """Rows [B, R] of arrays: the value of each token, or of its part or document.

        If values of documents are arrays, rows are [B, *shape], of the documents at
        `start`. Values that are names are indices into `label_names`. Past `length`,
        and at separators in an array of tokens, the value is `no_value`.

        Args:
          names: names of arrays.
          start, length: [B] int64, as in `gather`.
        """
        if not names:
            return {}
        column, last = np.arange(width), self.num_tokens - 1
        inside = column < np.asarray(length)[:, None]
        position_BR = np.minimum(np.asarray(start)[:, None] + column, last)
        found = {}
        for name in names:
            per, dtype = self.arrays[name].per, self.arrays[name].stored
            files = self._map_shards(name, dtype)
            if dtype.shape:
                document_B = _last_at(self.document_offsets[:-1], position_BR[:, 0])
                found[name] = self._take(files, document_B, self._first_documents)
                continue
            if per == "document":
                document_BR = _last_at(self.document_offsets[:-1], position_BR)
                values = self._take(files, document_BR, self._first_documents)
            elif per == "part":
                start_BR = self._part_starts[_last_at(self._part_starts, position_BR)]
                values = self._take(files, start_BR, self.shard_offsets)
            else:
                values = self._take(files, position_BR, self.shard_offsets)
            found[name] = np.where(inside, values, dtype.type(no_value(dtype)))
        return found

    @functools.cached_property
    def _first_documents(self) -> np.ndarray:
        """[S + 1] int64: the documents before each shard, and in all."""
        sizes = [shard["documents"] for shard in self.meta["shards"]]
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def _take(
        self, files: list[np.ndarray], number: np.ndarray, offsets: np.ndarray
    ) -> np.ndarray:
        """The entries with these numbers of an array that has one file for each shard.

        Args:
          offsets: [S + 1], the number of each shard's first entry, and the end.
        """
        shard = np.searchsorted(offsets[1:-1], number, side="right")
        values = np.empty((*number.shape, *files[0].shape[1:]), files[0].dtype)
        for n in np.unique(shard):
            own = shard == n
            values[own] = files[n][number[own] - offsets[n]]
        return values

    def _gather(self, arrays: list, start: np.ndarray, length: np.ndarray) -> None:
        """Fills rows [B, R] from the arrays of shards.

        Args:
          arrays: (the array of each shard, rows to fill, the value beyond `length`).
        """
        start, width = np.asarray(start, np.int64), arrays[0][1].shape[1]
        column = np.arange(width)
        shard = np.searchsorted(self.shard_offsets[1:-1], start, side="right")
        first = start - self.shard_offsets[shard]
        for n in np.unique(shard):
            own = np.flatnonzero(shard == n)
            position = first[own][:, None] + column
            for of_shards, rows, _ in arrays:
                rows[own] = of_shards[n].take(position, mode="clip")
        short = np.flatnonzero(np.asarray(length) < width)
        if len(short):
            beyond = column >= np.asarray(length)[short][:, None]
            for _, rows, fill in arrays:
                rows[short] = np.where(beyond, rows.dtype.type(fill), rows[short])

    @functools.cached_property
    def _tokens(self) -> list[np.ndarray]:
        return self._map_shards("token", np.dtype(self.meta["dtype"]))

    @functools.cached_property
    def _flags(self) -> list[np.ndarray]:
        return self._map_shards("flags", np.uint8)

    def _map_shards(self, name: str, dtype: np.dtype | type) -> list[np.ndarray]:
        """The memory-mapped array of that name in each shard."""
        folders = [self.path / shard["name"] for shard in self.meta["shards"]]
        return [_map_file(folder / f"{name}.bin", dtype) for folder in folders]

    def _offsets(self, name: str) -> np.ndarray:
        """The offsets of all shards in one array, and the end of the stream."""
        of_shards = zip(
            self._map_shards(name, np.int64), self.shard_offsets, strict=False
        )
        shifted = [offsets + first for offsets, first in of_shards]
        return np.concatenate([*shifted, self.shard_offsets[-1:]])


def build_stream(
    corpus: Corpus,
    split: str,
    vocabulary: Vocabulary,
    cache_dir: Path,
    separator: str,
    shard_tokens: int = 2**28,
) -> Stream:
    """The stream of a split of a corpus, tokenized once, in constant memory.

    Processes that call this at the same time share the work shards of a large corpus.

    Args:
      separator: "eos" (a token after each document), "lines" (after each line, and so
        after each document) or "none".
      shard_tokens: a shard ends with the first batch of documents that reaches this
        many tokens.

    Raises:
      UserError: the split has no documents, or lines are to end with eos although white
        space, including line ends, is kept as text.
    """
    assert separator in ("eos", "lines", "none"), separator
    if separator == "lines" and vocabulary.keep_whitespace:
        raise UserError(
            "data.separator is lines, but the vocabulary keeps the ends of lines as "
            "text; set data.whitespace=collapse or data.separator=eos"
        )
    cache_key = {
        "corpus": corpus.fingerprint(),
        "split": split,
        "vocabulary": vocabulary.sha256,
        "keep_whitespace": vocabulary.keep_whitespace,
        "unk": vocabulary.vocab.unk_id,
        "separator": None if separator == "none" else vocabulary.vocab.eos_id,
        "shard_tokens": shard_tokens,
        "rules": tokenize.VERSION,
    }
    if separator == "lines":
        cache_key["lines"] = 2  # raise it when such streams change
    if vocabulary.model.version > 1:
        cache_key["encoding"] = vocabulary.model.version
    if any(each.per == "token" for each in corpus.arrays.values()):
        cache_key["offsets"] = 2  # of tokens, which choose the values
    separator_ids = [] if separator == "none" else [vocabulary.vocab.eos_id]
    tokenizer = functools.partial(
        tokenize.StreamTokenizer, vocabulary, separator_ids, separator == "lines"
    )

    open_stream = functools.partial(
        Stream.open, arrays=corpus.arrays, vocabulary_size=vocabulary.vocab.size
    )

    def write(folder: Path, corpus: Corpus) -> dict:
        return tokenize.write_stream(folder, corpus, split, tokenizer(), shard_tokens)

    def find_damage(folder: Path) -> str:
        return open_stream(folder).find_damage()

    def create(folder: Path) -> dict:
        return tokenize.check_stream(corpus, split, write(folder, corpus))

    def join(folder: Path, results: list[work_shards.ShardResult]) -> dict:
        joined = tokenize.join_streams(folder, results, corpus.arrays)
        return tokenize.check_stream(corpus, split, joined)

    if corpus.work_shards:
        cache_key["portion"] = work_shards.MIN_SHARD_BYTES
        make = functools.partial(
            work_shards.get_or_join, shards=corpus.work_shards, create=write, join=join
        )
    else:
        make = functools.partial(get_or_create, create=create)
    folder = make(cache_dir, "stream", cache_key, find_damage=find_damage)
    return open_stream(folder)


def _last_at(starts: np.ndarray, position: np.ndarray) -> np.ndarray:
    """The index of the last start at or before each position."""
    return np.searchsorted(starts, position, side="right") - 1


def _out_of_range(shard: dict, name: str) -> str:
    return f"{shard['name']}/{name}.bin has numbers out of their range"


def _map_file(path: Path, dtype: np.dtype | type) -> np.ndarray:
    """The array in a file, mapped read-only; an empty file cannot be mapped."""
    if not path.stat().st_size:
        return np.zeros(0, dtype)
    return np.asarray(np.memmap(path, dtype, "r"))
