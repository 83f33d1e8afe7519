"""The lines that a vocabulary is trained on: those of the smallest hashes.

They depend on the text alone: not on its order, nor on who reads which part of it.
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
from research.data.corpora.files import Corpus
from research.data.loading.permutation import flattened
from research.data.progress import progress
from research.errors import UserError

SAMPLE = 2**23
"""Bytes of text that a vocabulary is trained on, at most."""
LONGEST = 4192
"""Bytes of a line, at most: SentencePiece would leave longer ones out unsaid."""
RULES = 1
"""To be raised when a change here draws other lines from the same text."""


class Sample(NamedTuple):
    """Lines of a training split, and what they were drawn from."""

    lines: list[str]
    size: int  # bytes of all lines that may be trained on
    seen: int  # lines
    longer: int  # of them, than `LONGEST`


def sample(corpus: Corpus, alpha: float = 0.0, cache: Path | None = None) -> list[str]:
    """Lines of the training split with the smallest hashes, `SAMPLE` bytes in all.

    With an alpha each part of a joined corpus gets a share of those bytes, or of all
    there are if they are fewer, that goes with its own bytes to the power alpha. A
    part that has not as many gives its lines again.

    Says once what was left out because it is longer than `LONGEST`.

    Raises:
      UserError: there is no text.
    """
    if not (alpha and corpus.parts):
        return _smallest(corpus, cache).lines
    drawn = [_smallest(part, cache) for part in corpus.parts]
    sizes = [found.size for found in drawn]
    most = min(SAMPLE, sum(sizes))
    lines = []
    for found, share in zip(drawn, flattened(sizes, alpha), strict=True):
        lines += _repeated(found.lines, int(share * most))
    return lines


def share(corpus: Corpus, alpha: float, cache: Path) -> None:
    """Draws from portions of a large corpus, while other processes do from others.

    Each calls this before one of them, alone, makes the vocabulary.
    """
    for part in corpus.parts if alpha and corpus.parts else (corpus,):
        if part.portions:
            _shared(part, cache)


def _repeated(lines: list[str], size: int) -> list[str]:
    """Lines in turn, round and round, until they are `size` bytes."""
    ends = np.cumsum([len(line.encode("utf-8")) for line in lines])
    rounds, rest = divmod(size, int(ends[-1]))
    return lines * rounds + lines[: int(np.searchsorted(ends, rest)) + (rest > 0)]


def _smallest(corpus: Corpus, cache: Path | None) -> Sample:
    """The sample of a corpus, from those of its portions where it has any.

    Raises:
      UserError: there is no text.
    """
    if not corpus.portions:
        found = _scan(corpus)
    elif cache is None:
        found = _merged([_scan(part) for part in corpus.portions])
    else:
        found = _shared(corpus, cache)
    if found.longer:
        print(
            f"vocabulary: {found.longer} of {found.seen} lines are longer than "
            f"{LONGEST} bytes and were not trained on",
            file=sys.stderr,
        )
    if not found.lines:
        raise UserError(f"data.corpus {corpus.name!r} has no text in its train split")
    return found


def _shared(corpus: Corpus, cache: Path) -> Sample:
    """The sample of a corpus of which each process scans some portions."""

    def write(folder: Path, sample: Sample) -> dict:
        (folder / "lines.json").write_text(json.dumps(sample), encoding="utf-8")
        return {}

    def read(folder: Path) -> Sample:
        return Sample(*json.loads((folder / "lines.json").read_text(encoding="utf-8")))

    made_of = {
        "corpus": corpus.fingerprint(),
        "rules": [SAMPLE, LONGEST, RULES, work_shards.PORTION],
    }
    folder = work_shards.once_joined(
        cache,
        "lines",
        made_of,
        corpus.portions,
        lambda folder, part: write(folder, _scan(part)),
        lambda folder, made: write(folder, _merged([read(path) for path, _ in made])),
    )
    return read(folder)


def _scan(corpus: Corpus) -> Sample:
    size = seen = longer = 0

    def fitting() -> Iterator[str]:
        nonlocal size, seen, longer
        for line in _lines(corpus):
            length = len(line.encode("utf-8"))
            seen += 1
            if length > LONGEST:
                longer += 1
            else:
                size += length
                yield line

    lines = _least(fitting())
    return Sample(lines, size, seen, longer)


def _merged(samples: Sequence[Sample]) -> Sample:
    lines = _least(line for sample in samples for line in sample.lines)
    size, seen, longer = (sum(row[n] for row in samples) for n in (1, 2, 3))
    return Sample(lines, size, seen, longer)


def _least(lines: Iterable[str]) -> list[str]:
    """Those of the smallest hashes, as few as make `SAMPLE` bytes, or all."""
    kept, total = [], 0
    for line in lines:
        data = line.encode("utf-8")
        place = int.from_bytes(hashlib.blake2b(data, digest_size=6).digest(), "big")
        if total >= SAMPLE and place >= -kept[0][0]:
            continue
        heapq.heappush(kept, (-place, line))
        total += len(data)
        while total - len(kept[0][1].encode("utf-8")) >= SAMPLE:
            total -= len(heapq.heappop(kept)[1].encode("utf-8"))
    return [line for _, line in sorted(kept, reverse=True)]


def _lines(corpus: Corpus) -> Iterator[str]:
    """Every line of the training split, its white space single spaces."""
    with progress(f"lines of {corpus.name}", corpus.size or None) as report:
        for document in corpus.documents("train"):
            for line in document.text.split("\n"):
                line = " ".join(line.split())
                if line:
                    yield line
            report(document.read, "")
