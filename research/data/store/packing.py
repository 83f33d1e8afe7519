"""Whole sentences packed into rows, and pairs of segments as BERT packs them.

Random choices are hashes of (document, turn) under a fixed seed: rows are a function
of the text and of what is asked for. All documents are packed side by side.
"""

# S sentences, D documents with text, N rows, A documents that still have text

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from research.batch import NEXT, NONADJACENT, OTHER_DOCUMENT, TextSpec
from research.data import counter_rng
from research.data.store.stream import Stream
from research.errors import UserError

SEED = 0
"""Of the choices that packing makes: the same in every run."""


class Sentences(NamedTuple):
    """The sentences of a stream, separators left out."""

    start: np.ndarray  # [S] int64, in tokens of the stream
    end: np.ndarray  # [S] int64
    first: np.ndarray  # [D + 1] int64: the first sentence of each document, and S

    @property
    def ends(self) -> np.ndarray:
        """[S + 1] int64: tokens of text before each sentence, and of all."""
        return np.concatenate([[0], np.cumsum(self.end - self.start)])


class Pairs(NamedTuple):
    """Two spans a row, in the order of the first ones."""

    start: np.ndarray  # [N] int64, of the first span
    length: np.ndarray  # [N] int64
    second: np.ndarray  # [N] int64, start of the second span
    second_length: np.ndarray  # [N] int64
    label: np.ndarray  # [N] int64: NEXT, OTHER_DOCUMENT or NONADJACENT
    truncated: int  # tokens that were left out since a pair was too long


def sentences(stream: Stream) -> Sentences:
    """The sentences of documents that have any text."""
    start, end = stream.sentence_offsets[:-1], stream.sentence_offsets[1:].copy()
    first = np.searchsorted(start, stream.document_offsets)
    some = np.flatnonzero(np.diff(first))
    end[first[some + 1] - 1] = stream.document_offsets[some + 1]
    end[first[some + 1] - 1] -= stream.separator_length
    return Sentences(start, end, np.append(first[some], len(start)))


def cut(text: Sentences, length: int) -> tuple[Sentences, int]:
    """No sentence is longer than `length` tokens; how many had to be cut."""
    parts = -(-(text.end - text.start) // length)
    before = np.concatenate([[0], np.cumsum(parts)])
    nth = np.arange(before[-1]) - np.repeat(before[:-1], parts)
    start = np.repeat(text.start, parts) + nth * length
    end = np.minimum(start + length, np.repeat(text.end, parts))
    return Sentences(start, end, before[text.first]), int((parts > 1).sum())


def fill(text: Sentences, edges: np.ndarray, length: int):
    """Rows of as many sentences as fit `length` tokens, one after the other.

    Args:
      text: no sentence is longer than `length`.
      edges: [E] int64, numbers of sentences: a row lies between two of them.

    Returns:
      start, length [N] int64. A separator between two documents of a row is read, and
      counts; one at its end does not.
    """
    following = np.searchsorted(text.end, text.start + length, side="right").tolist()
    first, last = [], []
    for here, edge in pairwise(edges.tolist()):
        while here < edge:
            first.append(here)
            here = min(following[here], edge)
            last.append(here - 1)
    start = text.start[np.array(first, np.int64)]
    return start, text.end[np.array(last, np.int64)] - start


def pairs(text: Sentences, reads: TextSpec) -> Pairs:
    """Pairs of the units "pair" and "sentence_pair".

    "pair" is google-research/bert's create_pretraining_data: sentences of a document
    are gathered up to a target length; the first of them, 1 to all but one, are A. B
    are the others (NEXT), or with probability `other`, and where there is only one
    sentence, as many as fill the target from a random sentence of a random other
    document on (OTHER_DOCUMENT), or with probability `far` from a random later sentence of the
    same document on, at least one being skipped (NONADJACENT; NEXT where none is left). After
    OTHER_DOCUMENT and NONADJACENT the text goes on right behind A. The target is `length`; of a share
    `short` of documents it is uniform in 2 .. `length`. Of a pair that is longer than
    `length` the longer side loses a token, at its front or back at random, until it
    fits.

    "sentence_pair" gathers two sentences in place of a target's worth: A and B are one
    sentence each.

    Raises:
      UserError: there is one document alone, or no room for two tokens.
    """
    num = len(text.first) - 1
    if num < 2:
        raise UserError(
            "pairs of sentences need at least two documents in each split, and one has "
            "fewer; give more text or a larger data.held_out"
        )
    if reads.length < 2:
        raise UserError(
            f"data.length leaves {reads.length} tokens of text, and a pair needs 2"
        )
    document, begin = np.arange(num), text.first[:-1].copy()
    key = counter_rng.row_key(SEED, document, np.zeros(num, np.int64))
    draw = counter_rng.uniform(key, "target", 2)
    target = 2 + (draw[:, 1] * (reads.length - 1)).astype(np.int64)
    target[draw[:, 0] >= reads.short_rate] = reads.length
    made, ends = [], text.ends
    while len(document):
        turn = np.full(len(document), len(made))
        key = counter_rng.row_key(SEED, document, turn)
        made.append(_turn(text, ends, reads, document, begin, target[document], key))
        begin = made[-1].pop("goes on")
        left = begin < text.first[document + 1]
        document, begin = document[left], begin[left]
    rows = {name: np.concatenate([turn[name] for turn in made]) for name in made[0]}
    order = np.argsort(rows["start"], kind="stable")
    return _truncated({name: rows[name][order] for name in rows}, reads.length)


def _turn(text: Sentences, ends, reads: TextSpec, document, begin, target, key):
    """The next pair of each document [A], not truncated, and where it goes on."""
    single = reads.unit == "sentence_pair"
    last = text.first[document + 1]

    def run(begin, tokens, limit):
        """The end of a run of sentences: at least one, up to `tokens`, or `limit`."""
        end = np.searchsorted(ends, ends[begin] + tokens)
        return np.minimum(begin + 1 if single else np.maximum(end, begin + 1), limit)

    stop = np.minimum(begin + 2, last) if single else run(begin, target, last)
    draw = counter_rng.uniform(key, "pair", 5)

    def pick(column, count):
        """[A]: one of 0 .. count - 1."""
        return (draw[:, column] * count).astype(np.int64)

    middle = begin + 1 + pick(0, np.maximum(stop - begin - 1, 1))
    label = np.full(len(begin), NEXT)
    skips = draw[:, 1] < reads.other_document_rate + reads.nonadjacent_rate
    label[skips & (last - middle >= 2)] = NONADJACENT
    label[(draw[:, 1] < reads.other_document_rate) | (stop - begin == 1)] = (
        OTHER_DOCUMENT
    )
    elsewhere = pick(2, len(text.first) - 2)
    elsewhere += elsewhere >= document
    of_other = text.first[elsewhere], text.first[elsewhere + 1]
    later = middle + 1 + pick(3, np.maximum(last - middle - 1, 1))
    any_other = of_other[0] + pick(4, of_other[1] - of_other[0])
    second = np.choose(label, [middle, any_other, np.minimum(later, last - 1)])
    limit = np.choose(label, [stop, of_other[1], last])
    rest = target - (ends[middle] - ends[begin])
    end = np.where(label == NEXT, stop, run(second, rest, limit))
    return {
        "start": text.start[begin],
        "length": text.end[middle - 1] - text.start[begin],
        "second": text.start[second],
        "second_length": ends[end] - ends[second],
        "label": label,
        "key": key,
        "goes on": np.where(label == NEXT, stop, middle),
    }


def _truncated(rows: dict[str, np.ndarray], most: int) -> Pairs:
    """Pairs of at most so many tokens: the longer side gives way, else the second."""
    key, one, two = rows["key"], rows["length"], rows["second_length"]
    over = np.maximum(one + two - most, 0)
    uneven = np.minimum(over, abs(one - two))
    both = over - uneven
    lost_one = np.where(one > two, uneven, 0) + both // 2
    lost_two = over - lost_one
    return Pairs(
        start=rows["start"] + _heads(key, "first", lost_one),
        length=one - lost_one,
        second=rows["second"] + _heads(key, "second", lost_two),
        second_length=two - lost_two,
        label=rows["label"],
        truncated=int(over.sum()),
    )


def _heads(key: np.ndarray, role: str, tosses: np.ndarray) -> np.ndarray:
    """[N] int64: heads of as many tosses of a fair coin, [N] each."""
    words = -(-tosses // 64)
    row = np.repeat(np.arange(len(tosses)), words)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(words) - words, words)
    start = counter_rng.bits(key, role, 1)[row, 0]
    toss = counter_rng.mix(start + (nth + 1).astype(np.uint64) * counter_rng.GOLDEN)
    spare = np.maximum(64 * (nth + 1) - tosses[row], 0).astype(np.uint64)
    heads = np.bitwise_count(toss >> spare)
    return np.bincount(row, heads, minlength=len(tosses)).astype(np.int64)
