"""Ranks [B, 2] of the head and the tail of a triple among all entities, from 1."""

from dataclasses import dataclass

from research import predictions


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is the mean of the reciprocal ranks."""

    of_texts = False

    def item(self, rows, objective, data):
        found = [float(rank) for rank in rows.arrays[0]["ranks"]]
        reciprocal = sum(1 / rank for rank in found) / len(found)
        item = predictions.unscored(rows.document, found)
        return item._replace(gold=[1.0] * len(found), score=reciprocal)
