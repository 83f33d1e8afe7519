"""A number: logits [B, 1], the number itself."""

# B rows

from dataclasses import dataclass

from research import predictions


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is minus the squared error."""

    open_labels = True
    is_pooled = True
    distribution = ""
    problem_type = "regression"

    def new_text_labels(self, objective):
        return ("0",)

    def item(self, rows, objective, data):
        prediction, label = float(rows.mean_logits()[0]), rows.document.label
        item = predictions.unscored(rows.document, prediction)
        if label is None:
            return item
        gold = float(label)
        return item._replace(gold=gold, score=-((prediction - gold) ** 2))
