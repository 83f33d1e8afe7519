"""One of several labels: logits [B, N] of the labels in `vocab.labels`."""  # noqa: N999

# B rows, N labels

from dataclasses import dataclass

from research import predictions


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is 1 if the label is right, else 0."""

    is_one_label = True
    is_pooled = True
    problem_type = "single_label_classification"

    def output_names(self, labels):
        return labels

    def metric_labels(self, data):
        return data.classes

    def answers(self, item, labels):
        return [(item.prediction, 0)], [(item.gold, 0)]

    def item(self, rows, objective, data):
        names, logits = data.vocab.labels, rows.mean_logits()
        prediction = names[int(logits.argmax())]
        item = predictions.right_or_wrong(rows.document, prediction, names)
        found = predictions.softmax(logits)
        return item._replace(details=predictions.probabilities(names, found))
