"""Sets of labels of pairs of texts."""

import numpy as np

from tests.testing.prediction_cases import LABELS, PAIR, Case


def bits(batch, vocab):
    return {"logits": (batch["label"][:, None] >> np.arange(2) & 1) - 0.5}


def draw_sets(rng, count):
    return [[x for x in LABELS if rng.random() < 0.5] for _ in range(count)]


CASE = Case(
    "sequence_classification",
    PAIR | {"label": "set"},
    bits,
    draw_sets,
    {"task": "multi"},
    column=lambda n: [["x"], ["x", "y"], []][n % 3] or None,
)
