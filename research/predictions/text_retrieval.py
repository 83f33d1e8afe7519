"""Rank [B, 1] of a row's second text among those of the split, from 1."""

# N rows, J width of the vectors, L length

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from research import predictions
from research.predictions import ranks
from research.predictions.retrieval import nearest_ranks


@dataclass(frozen=True)
class Prediction(ranks.Prediction):
    """The score is the reciprocal rank; a row that lacks a text has none.

    All second texts are ranked for each first one by cosines; equal ones have the mean
    of their ranks.
    """

    def of_split(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"ranks": text_ranks(**rows)}

    def item(self, rows, objective, data):
        if not rows.arrays[0]["ranks"].all():
            return predictions.unscored(rows.document, None)
        return super().item(rows, objective, data)


def text_ranks(
    first: np.ndarray, second: np.ndarray, token: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """[N, 1] float32: of each row the rank of its second text.

    Args:
      first, second: [N, J], the vectors of both texts.
      token: [N, L], the tokens of the second ones, of which equal ones are one text.
      weight: [N]; a row of weight 0 is no candidate, and its rank is 0.
    """
    ranks, used = np.zeros((len(weight), 1), np.float32), np.flatnonzero(weight > 0)
    first, second, token = (each[used] for each in (first, second, token))
    _, at, text = np.unique(token, axis=0, return_index=True, return_inverse=True)
    ranks[used, 0] = nearest_ranks(first, text, second[at], text[at])
    return ranks
