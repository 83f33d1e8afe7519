"""The lines that a vocabulary is trained on: those with the smallest hashes.

They depend only on the text: not on its order, nor on which process reads which part.
"""

import hashlib
import heapq
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from research.data import work_shards
from research.data.corpora.corpus import Corpus, sampling_rates
from research.data.progress import progress
from research.errors import UserError

MAX_SAMPLE_BYTES = 2**23
"""Bytes of text that a vocabulary is trained on, at most."""
MAX_LINE_BYTES = 4192
"""Bytes of a line, at most: SentencePiece silently skips longer ones."""
VERSION = 1
"""To be raised when a change here draws other lines from the same text."""


class Sample(NamedTuple):
    """Lines of a training split, and counts of the lines that they were drawn from."""

    lines: list[str]
    num_bytes: int  # of all lines that are short enough
    num_lines: int  # short enough or not
    num_too_long: int  # lines longer than `MAX_LINE_BYTES`


def sample_lines(
    corpus: Corpus, alpha: float = 0.0, cache_dir: Path | None = None
) -> list[str]:
    """The training lines with the smallest hashes, `MAX_SAMPLE_BYTES` in all.

    With an alpha, part i of a joined corpus gets the fraction
    `sampling_rates(sizes, alpha)[i]` of those bytes, or of all bytes there are if they
    are fewer. The lines of a part with less text are repeated.

    Prints how many lines were skipped because they are longer than `MAX_LINE_BYTES`.

    Raises:
      UserError: there is no text.
    """
    if not (alpha and corpus.parts):
        return _sample(corpus, cache_dir).lines
    samples = [_sample(part, cache_dir) for part in corpus.parts]
    sizes = [sample.num_bytes for sample in samples]
    total = min(MAX_SAMPLE_BYTES, sum(sizes))
    lines = []
    for sample, rate in zip(samples, sampling_rates(sizes, alpha), strict=True):
        lines += _repeat(sample.lines, int(rate * total))
    return lines


def sample_work_shards(corpus: Corpus, alpha: float, cache_dir: Path) -> None:
    """Samples the work shards of a large corpus, together with other processes.

    Every process calls this before one of them, alone, trains the vocabulary.
    """
    for part in corpus.parts if alpha and corpus.parts else (corpus,):
        if part.work_shards:
            _sample_together(part, cache_dir)


def _repeat(lines: list[str], size: int) -> list[str]:
    """The lines in order, repeated until they are `size` bytes."""
    ends = np.cumsum([len(line.encode("utf-8")) for line in lines])
    rounds, rest = divmod(size, int(ends[-1]))
    return lines * rounds + lines[: int(np.searchsorted(ends, rest)) + (rest > 0)]


def _sample(corpus: Corpus, cache_dir: Path | None) -> Sample:
    """The sample of a corpus, merged from its work shards where it has any.

    Raises:
      UserError: there is no text.
    """
    if not corpus.work_shards:
        sample = _scan(corpus)
    elif cache_dir is None:
        sample = _merge([_scan(shard) for shard in corpus.work_shards])
    else:
        sample = _sample_together(corpus, cache_dir)
    if sample.num_too_long:
        print(
            f"vocabulary: {sample.num_too_long} of {sample.num_lines} lines are longer "
            f"than {MAX_LINE_BYTES} bytes and were not trained on",
            file=sys.stderr,
        )
    if not sample.lines:
        raise UserError(f"data.corpus {corpus.name!r} has no text in its train split")
    return sample


def _sample_together(corpus: Corpus, cache_dir: Path) -> Sample:
    """The sample of a corpus, of which each process scans some work shards."""

    def write(folder: Path, sample: Sample) -> dict:
        (folder / "lines.json").write_text(json.dumps(sample), encoding="utf-8")
        return {}

    def read(folder: Path) -> Sample:
        return Sample(*json.loads((folder / "lines.json").read_text(encoding="utf-8")))

    limits = [MAX_SAMPLE_BYTES, MAX_LINE_BYTES, VERSION, work_shards.MIN_SHARD_BYTES]
    folder = work_shards.get_or_join(
        cache_dir,
        "lines",
        {"corpus": corpus.fingerprint(), "rules": limits},
        corpus.work_shards,
        lambda folder, shard: write(folder, _scan(shard)),
        lambda folder, made: write(folder, _merge([read(path) for path, _ in made])),
    )
    return read(folder)


def _scan(corpus: Corpus) -> Sample:
    """The sample of all lines of a corpus, in one pass."""
    num_bytes = num_lines = num_too_long = 0

    def short_lines() -> Iterator[str]:
        nonlocal num_bytes, num_lines, num_too_long
        for line in _lines(corpus):
            length = len(line.encode("utf-8"))
            num_lines += 1
            if length > MAX_LINE_BYTES:
                num_too_long += 1
            else:
                num_bytes += length
                yield line

    lines = _smallest_hashes(short_lines())
    return Sample(lines, num_bytes, num_lines, num_too_long)


def _merge(samples: Sequence[Sample]) -> Sample:
    lines = _smallest_hashes(line for sample in samples for line in sample.lines)
    counts = (sum(counts) for counts in zip(*(s[1:] for s in samples), strict=True))
    return Sample(lines, *counts)


def _smallest_hashes(lines: Iterable[str]) -> list[str]:
    """The lines with the smallest hashes: at least `MAX_SAMPLE_BYTES`, or all."""
    kept, total = [], 0
    for line in lines:
        data = line.encode("utf-8")
        digest = int.from_bytes(hashlib.blake2b(data, digest_size=6).digest(), "big")
        if total >= MAX_SAMPLE_BYTES and digest >= -kept[0][0]:
            continue
        heapq.heappush(kept, (-digest, line))
        total += len(data)
        while total - len(kept[0][1].encode("utf-8")) >= MAX_SAMPLE_BYTES:
            total -= len(heapq.heappop(kept)[1].encode("utf-8"))
    return [line for _, line in sorted(kept, reverse=True)]


def _lines(corpus: Corpus) -> Iterator[str]:
    """Every line of the training split, with single spaces for its white space."""
    with progress(f"lines of {corpus.name}", corpus.size or None) as report:
        for document in corpus.documents("train"):
            for line in document.text.split("\n"):
                line = " ".join(line.split())
                if line:
                    yield line
            report(document.amount_read, "")
