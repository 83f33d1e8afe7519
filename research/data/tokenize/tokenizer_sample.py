"""The lines on which a vocabulary is trained: those with the smallest hashes.

They depend only on the text, not on its order or on which process reads which part.
Memory holds at most 1.25 times the sample.
"""

import array
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from research.contract.errors import UserError
from research.data import work_shards
from research.data.cache import read_meta
from research.data.progress import progress
from research.data.read.corpus import SPLITS, Corpus, no_text, sampling_rates

# n lines

MAX_LINE_BYTES = 4192
"""The most bytes of a line, since SentencePiece silently skips longer ones. These are
cut, before a space if there is one."""
VERSION = 3
"""Raise it when a change here draws other lines from the same text."""

_LINE = re.compile(r"\s*\S[^\n]*|\s+")
"""Pattern of a line with the white space before it; joined, lines are the text."""


class Options(NamedTuple):
    """How lines are drawn; see `data.vocabulary_sample`, `whitespace` and `alpha`."""

    max_bytes: int = 10**9  # of all lines
    keep_whitespace: bool = False
    alpha: float = 0.0  # exponent of the parts of a joined corpus; 0: all lines have
    # the same chance


class Sample(NamedTuple):
    """Lines of a training split, and the size of the text from which they are drawn."""

    text: bytes | bytearray | np.ndarray  # UTF-8 of the lines
    start: np.ndarray  # [n] int64, where each line starts, by ascending hash
    size: np.ndarray  # [n] uint32, bytes of each line
    num_bytes: int  # bytes of all lines

    def lines(self) -> Iterator[bytes]:
        """The lines by ascending hash."""
        for start, size in zip(self.start.tolist(), self.size.tolist(), strict=True):
            yield bytes(self.text[start : start + size])


class SampledLines:
    """Lines to train on, which are decoded each time they are iterated over."""

    def __init__(self, samples: Sequence[Sample], sizes: Sequence[int]):
        """The lines of each sample, repeated until they are `sizes` bytes."""
        self._parts = list(zip(samples, sizes, strict=True))
        self.num_bytes = sum(sizes)

    def __iter__(self) -> Iterator[str]:
        for sample, size in self._parts:
            ends = np.cumsum(sample.size, dtype=np.int64)
            rounds, rest = divmod(size, int(ends[-1]))
            num = rounds * len(ends) + int(np.searchsorted(ends, rest)) + (rest > 0)
            rounds = (sample.lines() for _ in itertools.count())
            lines = itertools.islice(itertools.chain.from_iterable(rounds), num)
            yield from (line.decode("utf-8") for line in lines)


def sample_lines(
    corpus: Corpus, options: Options, cache_dir: Path | None = None
) -> SampledLines:
    """The training lines with the smallest hashes, `options.max_bytes` in all.

    With an alpha, part i of a joined corpus gets the fraction
    `sampling_rates(sizes, alpha)[i]` of these bytes, or of all existing bytes if these
    are fewer. The lines of a part with less text are repeated.

    Raises:
      UserError: there is no text.
    """
    if not (options.alpha and corpus.parts):
        sample = _sample(corpus, options, cache_dir)
        return SampledLines([sample], [int(sample.size.sum(dtype=np.int64))])
    samples = [_sample(part, options, cache_dir) for part in corpus.parts]
    sizes = [sample.num_bytes for sample in samples]
    total = min(options.max_bytes, sum(sizes))
    rates = sampling_rates(sizes, options.alpha)
    return SampledLines(samples, [int(rate * total) for rate in rates])


def sample_work_shards(corpus: Corpus, options: Options, cache_dir: Path) -> None:
    """Samples the work shards of a large corpus, together with other processes.

    Every process calls this before one of them, alone, trains the vocabulary.
    """
    for part in corpus.parts if options.alpha and corpus.parts else (corpus,):
        if part.work_shards:
            _sample_together(part, options, cache_dir)


def _sample(corpus: Corpus, options: Options, cache_dir: Path | None) -> Sample:
    """The sample of a corpus, merged from its work shards if it has any.

    Raises:
      UserError: there is no text.
    """
    if not corpus.work_shards:
        sample = _scan(corpus, options)
    elif cache_dir is None:
        shards = (_scan(shard, options) for shard in corpus.work_shards)
        sample = _merge(shards, options)
    else:
        sample = _sample_together(corpus, options, cache_dir)
    if not len(sample.size):
        if not any(True for split in SPLITS for _ in corpus.documents(split)):
            raise no_text(corpus)
        raise UserError(f"data.corpus {corpus.name!r} has no text in its train split")
    return sample


def _sample_together(corpus: Corpus, options: Options, cache_dir: Path) -> Sample:
    """The sample of a corpus; each process scans some of its work shards."""
    limits = [*options[:2], MAX_LINE_BYTES, VERSION, work_shards.MIN_SHARD_BYTES]
    folder = work_shards.get_or_join(
        cache_dir,
        "lines",
        {"corpus": corpus.fingerprint(), "rules": limits},
        corpus.work_shards,
        lambda folder, shard: _write(folder, _scan(shard, options)),
        lambda folder, made: _write(
            folder, _merge((_read(path, meta) for path, meta in made), options)
        ),
    )
    return _read(folder, read_meta(folder))


def _write(folder: Path, sample: Sample) -> dict:
    with (folder / "text.bin").open("wb") as file:
        file.writelines(sample.lines())
    np.save(folder / "size.npy", sample.size)
    return {"num_bytes": sample.num_bytes}


def _read(folder: Path, meta) -> Sample:
    size = np.load(folder / "size.npy")
    start = np.cumsum(size, dtype=np.int64) - size
    text = np.memmap(folder / "text.bin", np.uint8, "r") if len(size) else b""
    return Sample(text, start, size, meta["num_bytes"])


def _scan(corpus: Corpus, options: Options) -> Sample:
    """The sample of all lines of a corpus, in one pass."""
    smallest = _SmallestHashes(options.max_bytes)
    num_bytes = 0
    for line in _lines(corpus, options.keep_whitespace):
        for part in _cut(line.encode("utf-8"), options.keep_whitespace):
            num_bytes += len(part)
            smallest.add(part)
    return Sample(*smallest.chosen(), num_bytes)


def _cut(line: bytes, keep_whitespace: bool) -> Iterator[bytes]:
    """Splits a line into parts of whole characters, of at most MAX_LINE_BYTES each.

    If white space is kept, all parts joined are the line.
    """
    begin = 0
    while len(line) - begin > MAX_LINE_BYTES:
        end = line.rfind(b" ", begin + 1, begin + MAX_LINE_BYTES + 1)
        if end < 0:
            end = begin + MAX_LINE_BYTES
            while line[end] & 0xC0 == 0x80:  # inside a character of UTF-8
                end -= 1
        yield line[begin:end]
        begin = end + (line[end : end + 1] == b" " and not keep_whitespace)
    yield line[begin:]


def _merge(samples: Iterable[Sample], options: Options) -> Sample:
    smallest, num_bytes = _SmallestHashes(options.max_bytes), 0
    for sample in samples:
        num_bytes += sample.num_bytes
        for line in sample.lines():
            if not smallest.add(line):
                break  # all further lines have larger hashes
    return Sample(*smallest.chosen(), num_bytes)


class _SmallestHashes:
    """Keeps the lines with the smallest hashes: at least `max_bytes`, or all lines.

    Lines with equal hashes are kept in descending order, so that the result does not
    depend on the order in which lines are added.
    """

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._text = bytearray()
        self._hash, self._size = array.array("q"), array.array("I")
        self._largest = 2**64

    def add(self, line: bytes) -> bool:
        """Adds a line; False if its hash is larger than that of every line it keeps."""
        digest = hashlib.blake2b(line, digest_size=6).digest()
        number = int.from_bytes(digest, "big")
        if number > self._largest:
            return False
        self._text += line
        self._hash.append(number)
        self._size.append(len(line))
        if len(self._text) > self._max_bytes * 5 // 4 + MAX_LINE_BYTES:
            self._drop_excess()
        return True

    def chosen(self) -> tuple[bytearray, np.ndarray, np.ndarray]:
        """`text`, `start` and `size` of a `Sample`."""
        order = self._order()
        start, size = self._spans()
        return self._text, start[order], size[order]

    def _spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and size of each line in the text, [n] int64 and uint32."""
        size = np.array(self._size, np.uint32)
        return np.cumsum(size, dtype=np.int64) - size, size

    def _order(self) -> np.ndarray:
        """The lines to keep, by ascending hash."""
        start, size = self._spans()
        hashes = np.array(self._hash, np.int64)
        order = np.argsort(hashes, kind="stable")
        edges = np.flatnonzero(np.diff(hashes[order], prepend=-1, append=-1))
        for first, last in itertools.pairwise(edges.tolist()):
            if last - first > 1:
                equal = order[first:last].tolist()
                equal.sort(key=lambda n: self._line(start[n], size[n]), reverse=True)
                order[first:last] = equal
        ends = np.cumsum(size[order], dtype=np.int64)
        return order[: int(np.searchsorted(ends, self._max_bytes)) + 1]

    def _line(self, start: int, size: int) -> bytes:
        return bytes(self._text[start : start + size])

    def _drop_excess(self) -> None:
        """Drops lines that are not chosen, in place: the others move to the front."""
        start, size = self._spans()
        order = self._order()
        self._largest = self._hash[order[-1]]
        kept = np.sort(order)
        end = 0
        for at, num in zip(start[kept].tolist(), size[kept].tolist(), strict=True):
            self._text[end : end + num] = self._text[at : at + num]
            end += num
        del self._text[end:]
        self._hash = array.array("q", np.array(self._hash, np.int64)[kept].tobytes())
        self._size = array.array("I", size[kept].tobytes())


def _lines(corpus: Corpus, keep_whitespace: bool) -> Iterator[str]:
    """Every line of the training split; white space as it is, or as single spaces."""
    with progress(f"lines of {corpus.name}", corpus.size or None) as report:
        for document in corpus.documents("train"):
            if keep_whitespace:
                yield from _LINE.findall(document.text)
            else:
                lines = (" ".join(each.split()) for each in document.text.split("\n"))
                yield from filter(None, lines)
            report(document.amount_read, "")
