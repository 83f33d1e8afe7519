"""Choices among continuations of a text."""

from tests.testing.prediction_cases import Case, draw_labels, of_classes

CASE = Case(
    "multiple_choice",
    {"fields": "one,options", "label": "choice"},
    of_classes,
    draw_labels,
    {"choices": 3},
    column=lambda n: n % 2,
)
