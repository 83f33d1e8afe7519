"""Rows of two spans from all documents at once, and the truncation of long spans.

Random choices are hashes of (document, turn), seeded by the number of the text's copy,
so the rows are a function of the text and the unit's fields, which include that number.
In each turn, every document that still has text makes one row.
"""

# D documents with text, N rows, A documents that still have text

from collections.abc import Callable

import numpy as np

from research.contract.errors import UserError
from research.data import counter_rng
from research.data.rows import Spans, TextSpec
from research.data.rows.packing.sentences import Sentences


def in_turns(
    text: Sentences, spec: TextSpec, next_rows: Callable
) -> dict[str, np.ndarray]:
    """The rows of all turns, sorted by the start of the first span.

    Args:
      next_rows: (document, begin, key), each [A] -> the rows [A] by name, including
        `next_begin`, the sentence at which the document's next row begins.

    Raises:
      UserError: there is no room for two tokens.
    """
    if spec.length < 2:
        raise UserError(
            f"data.length leaves {spec.length} tokens of text, and a pair needs 2"
        )
    document, begin = np.arange(len(text.first) - 1), text.first[:-1].copy()
    turns: list[dict[str, np.ndarray]] = []
    while len(document):
        turn = np.full(len(document), len(turns))
        key = counter_rng.row_key(spec.copy, document, turn)
        turns.append(next_rows(document, begin, key))
        begin = turns[-1].pop("next_begin")
        left = begin < text.first[document + 1]
        document, begin = document[left], begin[left]
    rows = {name: np.concatenate([turn[name] for turn in turns]) for name in turns[0]}
    order = np.argsort(rows["start"], kind="stable")
    return {name: rows[name][order] for name in rows}


def draw_targets(
    key: np.ndarray, short_rate: float, least: int, most: int
) -> np.ndarray:
    """[N]: `most` or, for the fraction `short_rate`, uniform in least .. most."""
    draw = counter_rng.uniform(key, "target", 2)
    target = least + (draw[:, 1] * (most - least + 1)).astype(np.int64)
    return np.where(draw[:, 0] < short_rate, target, most)


def lost_tokens(
    one: np.ndarray, two: np.ndarray, max_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [N] that spans of `one` and `two` [N] tokens lose to fit together.

    First the longer span loses tokens; once both are equally long, they lose tokens
    alternately, the second span first.
    """
    over = np.maximum(one + two - max_length, 0)
    uneven = np.minimum(over, abs(one - two))
    both = over - uneven
    lost_one = np.where(one > two, uneven, 0) + both // 2
    return lost_one, over - lost_one


def truncate(rows: dict[str, np.ndarray], max_length: int, total: int) -> Spans:
    """Rows of no more than `max_length` tokens, see `lost_tokens`.

    Args:
      rows: the result of `in_turns`; its `key` decides whether tokens are lost at the
        front or the back of a span.
      total: tokens of the text.
    """
    key, one, two = rows["key"], rows["length"], rows["second_length"]
    lost_one, lost_two = lost_tokens(one, two, max_length)
    return Spans(
        start=rows["start"] + _heads(key, "first", lost_one),
        length=one - lost_one,
        second=rows["second"] + _heads(key, "second", lost_two),
        second_length=two - lost_two,
        label=rows["label"],
        total=total,
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
