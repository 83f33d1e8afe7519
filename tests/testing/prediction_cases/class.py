"""Classes of pairs of texts."""  # noqa: N999

from tests.testing.prediction_cases import PAIR, Case, draw_labels, of_classes

CASE = Case(
    "sequence_classification",
    PAIR,
    of_classes,
    draw_labels,
    column=lambda n: "xyz"[n % 3],
)
