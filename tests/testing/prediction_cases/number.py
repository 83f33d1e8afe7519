"""Numbers of pairs of texts."""

from tests.testing.prediction_cases import PAIR, Case

CASE = Case(
    "sequence_classification",
    PAIR | {"label": "number"},
    lambda batch, vocab: {"logits": batch["label"][:, None]},
    lambda rng, n: rng.normal(size=n).tolist(),
    {"task": "regression"},
    best=0.0,
    column=lambda n: n / 7,
)
