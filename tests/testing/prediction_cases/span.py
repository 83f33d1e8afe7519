"""Answers of questions, in their contexts."""

from research.metrics import squad
from tests.testing.prediction_cases import Case, draw_texts


def right_spans(batch, vocab):
    start, end = batch["answer"][:, :1], batch["answer"][:, 1:, None]
    null = 2.0 * (batch["answer"] == 0).all(axis=1) - 1
    found = {"start": start, "end": end, "score": 6.0 * (end > 0), "null": null}
    return found | {"context": batch["context"]}


CASE = Case(
    "question_answering",
    {},
    right_spans,
    draw_texts,
    {"stride": 8},
    "questions.json",
    squad.f1,
    as_gold=lambda drawn: [drawn],
)
