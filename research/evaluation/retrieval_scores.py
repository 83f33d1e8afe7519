"""Retrieval among the pictures and captions of a table, with 95 % intervals."""

# N captions, P pictures, J width of the vectors

from collections.abc import Sequence

import numpy as np

from research.evaluation.score_tables import Cell, Table
from research.evaluation.statistics import wilson_interval
from research.metrics.retrieval import DEPTHS, SIDES
from research.predictions.retrieval import pair_ranks

LABELS = dict(zip(SIDES, ("image to text", "text to image"), strict=True))


def retrieval_ranks(
    image: np.ndarray, text: np.ndarray, picture: Sequence[int]
) -> np.ndarray:
    """[N, 2]: the rank of the best caption of a caption's picture, and of the picture.

    Args:
      image: [P, J], the vectors of pictures.
      text: [N, J], the vectors of captions.
      picture: [N], the picture of each caption.
    """
    number = np.asarray(picture)
    return pair_ranks(image[number], text, number, np.ones(len(number)))


def matrix_ranks(values: np.ndarray, picture: Sequence[int]) -> np.ndarray:
    """[N, 2]: as `retrieval_ranks`, by values [P, N] of pairs, the larger nearer."""
    number = np.asarray(picture)
    own = np.arange(len(values))[:, None] == number  # [P, N]
    best = np.where(own, values, -np.inf).max(axis=1, keepdims=True)
    of_picture = _rank(values, best, ~own).sum(axis=1)[number]
    of_caption = _rank(values, values[number, np.arange(len(number))], ~own).sum(axis=0)
    return 1 + np.stack([of_picture, of_caption], axis=1)


def _rank(values: np.ndarray, best: np.ndarray, other: np.ndarray) -> np.ndarray:
    """1 where another value is larger than the best right one, 1/2 where equal."""
    return other * ((values > best) + (values == best) / 2)


def retrieval_table(ranks: np.ndarray, picture: Sequence[int]) -> Table:
    """R@k of both sides, and the median rank.

    A picture counts once, by its best caption, and each caption by its picture. The
    intervals are Wilson's for as many queries as there are pictures, since captions of
    one picture are no independent queries.
    """
    _, first, count = np.unique(picture, return_index=True, return_counts=True)
    table: Table = {}
    for n, side in enumerate(SIDES):
        rows = ranks[first, n] if n == 0 else ranks[:, n]
        candidates = len(picture) if n == 0 else len(count)
        found = {}
        for k in DEPTHS:
            value = float((rows <= k).mean())
            found[f"R@{k}"] = Cell(value, *wilson_interval(value, len(count)))
        found["median rank"] = Cell(float(np.median(rows)))
        found["candidates"] = Cell(float(candidates))
        found["R@10 by chance"] = Cell(_chance(count, candidates, n))
        table[LABELS[side]] = found
    return table


def _chance(count: np.ndarray, candidates: int, side: int) -> float:
    """R@10 of random ranks: of pictures with `count` captions, or of captions."""
    depth = min(DEPTHS[-1], candidates)
    if side:
        return depth / candidates
    none = [
        np.prod([(candidates - own - i) / (candidates - i) for i in range(depth)])
        for own in count
    ]
    return float(np.mean([1 - max(0.0, each) for each in none]))
