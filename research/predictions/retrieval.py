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
    ranks[used, 0] = nearest_ranks(image, picture, text, picture)
    ranks[used, 1] = nearest_ranks(text, picture, image[first], picture[first])
    return ranks


def nearest_ranks(
    query: np.ndarray, right: np.ndarray, candidate: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """[Q] float32: of each query the rank of its nearest right candidate, from 1.

    Candidates are ranked by cosines among those that are wrong; equal ones have the
    mean of their ranks.

    Args:
      query, candidate: [Q, J] and [C, J], their vectors.
      right: [Q], the group of each query's right candidates.
      group: [C], that of each candidate.
    """
    query, candidate, ranks = _unit(query), _unit(candidate), []
    for begin in range(0, len(query), CHUNK):
        rows = slice(begin, begin + CHUNK)
        cosine = query[rows] @ candidate.T
        own = right[rows, None] == group
        best = np.where(own, cosine, -np.inf).max(axis=1, keepdims=True)
        better = ((cosine > best) & ~own).sum(axis=1)
        equal = ((cosine == best) & ~own).sum(axis=1)
        ranks.append((1 + better + equal / 2).astype(np.float32))
    return np.concatenate([np.zeros(0, np.float32), *ranks])


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(length, 1e-12)
