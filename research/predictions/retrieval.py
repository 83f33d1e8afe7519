"""Ranks [B, 2] of a row's caption and picture among those of the split, from 1."""

# N rows, J width of the vectors

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from research.predictions import ranks

CHUNK = 512


@dataclass(frozen=True)
class Prediction(ranks.Prediction):
    """The score is the mean of the reciprocal ranks.

    Captions are ranked for each picture, of which the best of its captions counts, and
    pictures for each caption, by cosines; equal ones have the mean of their ranks.
    """

    def of_split(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"ranks": pair_ranks(**rows)}


def pair_ranks(
    image: np.ndarray, text: np.ndarray, picture: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """[N, 2] float32: of each row the rank of its captions, and of its picture.

    Args:
      image, text: [N, J], the vectors of pictures and captions.
      picture: [N], whose equal numbers are one picture.
      weight: [N]; a row of weight 0 is no candidate, and its ranks are 1.
    """
    ranks, used = np.ones((len(weight), 2), np.float32), np.flatnonzero(weight > 0)
    image, text, picture = (each[used] for each in (image, text, picture))
    _, first = np.unique(picture, return_index=True)
    units = (_unit(image), picture), (_unit(text), picture)
    pictures = _unit(image)[first], picture[first]
    for side, (query, candidate) in enumerate(
        [(units[0], units[1]), (units[1], pictures)]
    ):
        for begin in range(0, len(used), CHUNK):
            rows = slice(begin, begin + CHUNK)
            cosine = query[0][rows] @ candidate[0].T
            own = query[1][rows, None] == candidate[1]
            best = np.where(own, cosine, -np.inf).max(axis=1, keepdims=True)
            better = ((cosine > best) & ~own).sum(axis=1)
            equal = ((cosine == best) & ~own).sum(axis=1)
            ranks[used[rows], side] = 1 + better + equal / 2
    return ranks


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)
