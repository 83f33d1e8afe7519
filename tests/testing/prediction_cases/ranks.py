"""Ranks of the entities of triples."""

import numpy as np

from tests.testing.prediction_cases import Case, draw_ranks, mean_reciprocal

GRAPH = {"format": "triples", "lexicon": "{folder}/graph.triples", "separator": "none"}
GRAPH |= {"vocabulary": "words", "vocabulary_size": 9 + 2 + 5, "sentinels": 0}
CASE = Case(
    "transe",
    GRAPH,
    lambda batch, vocab: {"ranks": np.ones((len(batch["token"]), 2))},
    draw_ranks,
    file="graph.triples",
    score=mean_reciprocal,
    gold=[1.0, 1.0],
)
