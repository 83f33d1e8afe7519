"""One of the choices of an example: logits [B, C]."""

# B rows, C choices at most

from dataclasses import dataclass

from research import predictions
from research.data.documents import CHOICE_NAMES, as_known, choice_names


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is 1 if the choice is right, else 0."""

    metrics = ("accuracy",)
    open_labels = True
    is_pooled = True
    example = "--data=FILE"

    def expected_texts(self, count, fields):
        return "" if count > 2 else "a question and its choices"

    def new_text_labels(self, objective):
        return CHOICE_NAMES[0][: objective.choices]

    def item(self, rows, objective, data):
        names, logits = data.vocab.labels, rows.arrays[0]["logits"]
        logits = logits[: len(rows.document.starts)]  # those behind are no choices
        choices = [as_known(name, names) for name in choice_names(names)[: len(logits)]]
        prediction = choices[int(logits.argmax())]
        item = predictions.right_or_wrong(rows.document, prediction, names)
        found = predictions.softmax(logits)
        return item._replace(details=predictions.probabilities(choices, found))
