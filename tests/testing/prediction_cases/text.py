"""Texts that are written after others."""

import numpy as np

from tests.testing.prediction_cases import Case, draw_texts


def right_texts(batch, vocab):
    kept = batch["weight"] * (batch["target"] != vocab.eos_id) > 0
    return {"written": np.where(kept, batch["target"], vocab.pad_id)}


CASE = Case(
    "sequence_to_sequence",
    {"fields": "one,two"},
    right_texts,
    draw_texts,
    {"target_length": 96},
    constant="!",
    new_text_fields={"target_length": 12},
)
