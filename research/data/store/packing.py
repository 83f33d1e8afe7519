"""Rows of whole sentences, and pairs of segments as BERT and as ELECTRA make them.

Random choices are hashes of (document, turn) under a seed that is the number of the
copy of the text, so the rows are a function of the text, the `TextSpec` and that
number. All documents are packed in parallel: in each
turn every document that still has text makes one pair.
"""

# S sentences, D documents with text, N rows, A documents that still have text

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from research.batch import LONE, NEXT, NONADJACENT, OTHER_DOCUMENT, TextSpec
from research.data import counter_rng
from research.data.store.stream import Stream
from research.errors import UserError

DRAWN_UNITS = ("pair", "sentence_pair", "halves")
"""Units of text whose rows depend on random choices, and so on the copy."""

ONE_SEGMENT_RATE = 0.1
MIN_TARGET = 5
"""Of ELECTRA's rows: the fraction that has one segment whatever its text, and the
shortest row to aim at, specials included (released code)."""


class Sentences(NamedTuple):
    """The sentences of a stream, without separators."""

    start: np.ndarray  # [S] int64, in tokens of the stream
    end: np.ndarray  # [S] int64
    first: np.ndarray  # [D + 1] int64: the first sentence of each document, and S

    @property
    def ends(self) -> np.ndarray:
        """[S + 1] int64: the tokens of text before each sentence, and of all."""
        return np.concatenate([[0], np.cumsum(self.end - self.start)])


class Pairs(NamedTuple):
    """Two spans a row, sorted by the start of the first."""

    start: np.ndarray  # [N] int64, of the first span
    length: np.ndarray  # [N] int64
    second: np.ndarray  # [N] int64, start of the second span
    second_length: np.ndarray  # [N] int64, 0 in a row of one span
    label: np.ndarray  # [N] int64: NEXT, OTHER_DOCUMENT, NONADJACENT or LONE
    truncated: int  # tokens that were left out because a pair was too long


def find_sentences(stream: Stream) -> Sentences:
    """The sentences of the documents that have any text."""
    start, end = stream.sentence_offsets[:-1], stream.sentence_offsets[1:].copy()
    first = np.searchsorted(start, stream.document_offsets)
    nonempty = np.flatnonzero(np.diff(first))
    end[first[nonempty + 1] - 1] = stream.document_offsets[nonempty + 1]
    end[first[nonempty + 1] - 1] -= stream.separator_length
    return Sentences(start, end, np.append(first[nonempty], len(start)))


def cut_long_sentences(text: Sentences, length: int) -> tuple[Sentences, int]:
    """The sentences, cut to at most `length` tokens, and how many had to be cut."""
    parts = -(-(text.end - text.start) // length)
    before = np.concatenate([[0], np.cumsum(parts)])
    nth = np.arange(before[-1]) - np.repeat(before[:-1], parts)
    start = np.repeat(text.start, parts) + nth * length
    end = np.minimum(start + length, np.repeat(text.end, parts))
    return Sentences(start, end, before[text.first]), int((parts > 1).sum())


def fill_rows(text: Sentences, edges: np.ndarray, length: int):
    """Rows of consecutive sentences, as many as fit in `length` tokens.

    Args:
      text: no sentence is longer than `length`.
      edges: [E] int64, numbers of sentences; each row lies between two of them.

    Returns:
      start, length [N] int64. A separator between two documents of a row is part of
      the row; one at its end is not.
    """
    following = np.searchsorted(text.end, text.start + length, side="right").tolist()
    first, last = [], []
    for sentence, edge in pairwise(edges.tolist()):
        while sentence < edge:
            first.append(sentence)
            sentence = min(following[sentence], edge)
            last.append(sentence - 1)
    start = text.start[np.array(first, np.int64)]
    return start, text.end[np.array(last, np.int64)] - start


def make_pairs(text: Sentences, text_spec: TextSpec, copy: int = 0) -> Pairs:
    """The pairs of the units "pair", "sentence_pair" and "halves".

    "pair" is google-research/bert's create_pretraining_data. Sentences of a document
    are gathered up to a target length, which is `length`, or for the fraction
    `short_rate` of documents uniform in 2 .. `length`. A is the first of them, a
    uniform number from 1 to all but one. B is one of:

      NEXT: the others.
      OTHER_DOCUMENT, with probability `other_document_rate`, and wherever only one
        sentence was gathered: the sentences from a random one of a random other
        document on, up to the target. The latter are LONE if `text_spec.lone`.
      NONADJACENT, with probability `nonadjacent_rate` (NEXT where no sentence is left):
        the sentences from a random later one of the same document on, up to the
        target; at least one is skipped.

    After OTHER_DOCUMENT and NONADJACENT the next pair starts right after A. While a
    pair is longer than `length`, the longer span loses a token, at its front or back
    at random.

    In "sentence_pair" two sentences are gathered, and A and B are one sentence each.

    For "halves" see `_next_halves`.

    Args:
      copy: the number of the copy of the text, each of which is packed anew, as
        create_pretraining_data does for each of dupe_factor copies.

    Raises:
      UserError: B may be of another document, but there is one alone; or there is no
        room for two tokens.
    """
    num, halves = len(text.first) - 1, text_spec.unit == "halves"
    if num < 2 and not halves:
        raise UserError(
            "pairs of sentences need at least two documents in each split, and one has "
            "fewer; give more text or a larger data.held_out"
        )
    if text_spec.length < 2:
        raise UserError(
            f"data.length leaves {text_spec.length} tokens of text, and a pair needs 2"
        )
    document, begin = np.arange(num), text.first[:-1].copy()
    key = counter_rng.row_key(copy, document, np.zeros(num, np.int64))
    target = _targets(key, text_spec.short_rate, 2, text_spec.length)
    turns, ends = [], text.ends
    while len(document):
        turn = np.full(len(document), len(turns))
        key = counter_rng.row_key(copy, document, turn)
        turns.append(
            _next_halves(text, ends, text_spec, document, begin, key)
            if halves
            else _next_pairs(
                text, ends, text_spec, document, begin, target[document], key
            )
        )
        begin = turns[-1].pop("next_begin")
        left = begin < text.first[document + 1]
        document, begin = document[left], begin[left]
    rows = {name: np.concatenate([turn[name] for turn in turns]) for name in turns[0]}
    order = np.argsort(rows["start"], kind="stable")
    rows = {name: rows[name][order] for name in rows}
    if halves:
        return Pairs(**rows | {"truncated": int(rows["truncated"].sum())})
    return _truncate(rows, text_spec.length)


def _targets(key: np.ndarray, short_rate: float, least: int, most: int) -> np.ndarray:
    """[N]: `most`, or for the fraction `short_rate` uniform in least .. most."""
    draw = counter_rng.uniform(key, "target", 2)
    target = least + (draw[:, 1] * (most - least + 1)).astype(np.int64)
    return np.where(draw[:, 0] < short_rate, target, most)


def _next_pairs(
    text: Sentences, ends, text_spec: TextSpec, document, begin, target, key
):
    """The next pair of each document [A], not truncated, and where the text continues.

    Args:
      ends: `text.ends`.
      document, begin, target, key: [A], of each document its number, the sentence at
        which the pair begins, the target length in tokens, and the row key.
    """
    single = text_spec.unit == "sentence_pair"
    last = text.first[document + 1]

    def run_end(begin, tokens, limit):
        """The end of a run of sentences: at least one, up to `tokens`, or `limit`."""
        end = np.searchsorted(ends, ends[begin] + tokens)
        return np.minimum(begin + 1 if single else np.maximum(end, begin + 1), limit)

    stop = np.minimum(begin + 2, last) if single else run_end(begin, target, last)
    draw = counter_rng.uniform(key, "pair", 5)

    def pick(column, count):
        """[A]: uniform in 0 .. count - 1."""
        return (draw[:, column] * count).astype(np.int64)

    middle = begin + 1 + pick(0, np.maximum(stop - begin - 1, 1))
    label = np.full(len(begin), NEXT)
    negative = draw[:, 1] < text_spec.other_document_rate + text_spec.nonadjacent_rate
    label[negative & (last - middle >= 2)] = NONADJACENT
    from_other = draw[:, 1] < text_spec.other_document_rate
    lone = stop - begin == 1
    label[from_other | lone] = OTHER_DOCUMENT
    elsewhere = pick(2, len(text.first) - 2)
    elsewhere += elsewhere >= document
    other_first, other_last = text.first[elsewhere], text.first[elsewhere + 1]
    later = middle + 1 + pick(3, np.maximum(last - middle - 1, 1))
    other = other_first + pick(4, other_last - other_first)
    second = np.choose(label, [middle, other, np.minimum(later, last - 1)])
    limit = np.choose(label, [stop, other_last, last])
    rest = target - (ends[middle] - ends[begin])
    end = np.where(label == NEXT, stop, run_end(second, rest, limit))
    return {
        "start": text.start[begin],
        "length": text.end[middle - 1] - text.start[begin],
        "second": text.start[second],
        "second_length": ends[end] - ends[second],
        "label": np.where(lone & text_spec.lone, LONE, label),
        "key": key,
        "next_begin": np.where(label == NEXT, stop, middle),
    }


def _next_halves(text: Sentences, ends, text_spec: TextSpec, document, begin, key):
    """The next row of each document [A], and where the text continues.

    google-research/electra, build_pretraining_dataset.py, ExampleBuilder. A row aims at
    a target: L = `length` + 2 tokens, or for the fraction `short_rate` of rows uniform
    in MIN_TARGET .. L. Sentences are gathered until they have as many tokens. Of them
    the first span has (target - 3) // 2 tokens, which the first segment aims at, and
    the second the others; which sentences are whose, `sentence_pairs.fill_segments`
    says. A row of fewer tokens, and the fraction ONE_SEGMENT_RATE of all rows, is the
    first span alone.

    Args: as of `_next_pairs`.
    """
    length = text_spec.length + 2
    last = text.first[document + 1]
    target = _targets(key, text_spec.short_rate, MIN_TARGET, length)
    stop = np.searchsorted(ends, ends[begin] + target)
    stop = np.minimum(np.maximum(stop, begin + 1), last)
    total, half = ends[stop] - ends[begin], (target - 3) // 2
    one = counter_rng.uniform(key, "halves", 1)[:, 0] < ONE_SEGMENT_RATE
    one |= (total < half) | (total == 1)
    first = np.where(one, total, np.minimum(half, total - 1))
    read = np.minimum(total, text_spec.width)
    first = np.minimum(first, read)
    return {
        "start": text.start[begin],
        "length": first,
        "second": text.start[begin] + np.minimum(first, read - 1),
        "second_length": read - first,
        "label": np.full(len(begin), NEXT),
        "truncated": np.maximum(total - (length - 3 + one), 0),
        "next_begin": stop,
    }


def lost_tokens(
    one: np.ndarray, two: np.ndarray, max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [N] that spans of `one` and `two` [N] tokens lose to fit together.

    First the longer span loses tokens; once both are equally long they lose tokens in
    turn, the second span first.
    """
    over = np.maximum(one + two - max_length, 0)
    uneven = np.minimum(over, abs(one - two))
    both = over - uneven
    lost_one = np.where(one > two, uneven, 0) + both // 2
    return lost_one, over - lost_one


def _truncate(rows: dict[str, np.ndarray], max_length: int) -> Pairs:
    """Pairs of no more than `max_length` tokens, see `lost_tokens`."""
    key, one, two = rows["key"], rows["length"], rows["second_length"]
    lost_one, lost_two = lost_tokens(one, two, max_length)
    return Pairs(
        start=rows["start"] + _heads(key, "first", lost_one),
        length=one - lost_one,
        second=rows["second"] + _heads(key, "second", lost_two),
        second_length=two - lost_two,
        label=rows["label"],
        truncated=int((lost_one + lost_two).sum()),
    )


def _heads(key: np.ndarray, role: str, tosses: np.ndarray) -> np.ndarray:
    """[N] int64: the number of heads in `tosses` [N] tosses of a fair coin."""
    words = -(-tosses // 64)
    row = np.repeat(np.arange(len(tosses)), words)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(words) - words, words)
    start = counter_rng.random_bits(key, role, 1)[row, 0]
    steps = (nth + 1).astype(np.uint64) * counter_rng.GOLDEN_GAMMA
    toss = counter_rng.mix64(start + steps)
    spare = np.maximum(64 * (nth + 1) - tosses[row], 0).astype(np.uint64)
    heads = np.bitwise_count(toss >> spare)
    return np.bincount(row, heads, minlength=len(tosses)).astype(np.int64)
