"""An answer in a context: candidates, their scores, and that of no answer.

start [B, K], end [B, K, E] and score [B, K, E] are positions of candidates and their
scores, null [B] is the score of no answer, context [B, 2] the first position and the
number of tokens of the context.
"""

# B rows, K starts, E ends of each

from dataclasses import dataclass

from research import predictions
from research.data.documents import ANSWERABLE, UNANSWERABLE
from research.data.tokenize.token_offsets import token_offsets
from research.metrics import squad
from research.predictions import answer_spans


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is F1; an item has `answer_score` and `no_answer_score`."""

    finds_answers = True
    example = '"a question" "its context"'
    columns = "question,context"

    def expected_texts(self, count, fields):
        return "" if count == 2 else "two, a question and its context"

    def new_text_labels(self, objective):
        return (ANSWERABLE,)  # as transformers' pipeline, which answers each question

    def text_labels(self, labels):
        return labels

    def item(self, rows, objective, data):
        windows = [
            answer_spans.Window(
                row["start"],
                row["end"],
                row["score"],
                float(row["null"]),
                int(row["context"][0]),
                first,
                size,
            )
            for row, first in zip(rows.arrays, rows.first, strict=True)
            if (size := int(row["context"][1]))
        ]
        document, no_answers = rows.document, UNANSWERABLE in data.vocab.labels
        best = answer_spans.best_span(windows, max_answer=objective.max_answer)
        prediction, details = "", {}
        if best is not None:
            null = answer_spans.null_score(windows)
            details = {
                "answer_score": predictions.six_digits(best.score),
                "no_answer_score": predictions.six_digits(null),
            }
            if not objective.tells_unanswerable:
                null -= best.score
            if not no_answers or null <= objective.null_threshold:
                offsets = token_offsets(document.text, data.vocabulary)
                begin, end = offsets.begin[best.first], offsets.end[best.last]
                prediction = document.text[begin:end].strip()
        item = predictions.unscored(document, prediction, **details)
        if not document.golds and document.label != UNANSWERABLE:
            return item
        golds = squad.answers_to_score(document.golds, no_answers=no_answers)
        f1 = squad.f1(prediction, golds, no_answers=no_answers)
        return item._replace(gold=golds, score=f1)
