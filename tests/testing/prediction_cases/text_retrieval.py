"""Second texts of pairs."""

import numpy as np

from tests.testing.prediction_cases import Case, mean_reciprocal


def right_vectors(batch, vocab):
    token = batch["positive_token"]
    table = np.random.default_rng(0).normal(size=(token.shape[1], vocab.size, 16))
    vector = table[np.arange(token.shape[1]), token].sum(axis=1)
    found = {"first": vector, "second": vector, "token": token}
    return found | {"weight": batch["vector_weight"]}


CASE = Case(
    "sentence_vectors",
    {"fields": "one,two"},
    right_vectors,
    lambda rng, n: rng.integers(1, 30, (n, 1)).tolist(),
    {"texts": 2},
    score=mean_reciprocal,
    gold=[1.0],
)
