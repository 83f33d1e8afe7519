"""Any number of labels: logits [B, N] of the single labels of `vocab.labels`."""

# B rows, N single labels

from dataclasses import dataclass

import numpy as np

from research import predictions
from research.data.documents import as_known, single_labels


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is the fraction of all labels that is right."""

    is_pooled = True
    distribution = "sigmoid"
    problem_type = "multi_label_classification"

    def output_names(self, labels):
        return single_labels(labels)

    def metric_labels(self, data):
        return single_labels(data.vocab.labels)

    def answers(self, item, labels):
        prediction, gold = ([(n, 0) for n in found] for found in item[1:3])
        return prediction, gold

    def item(self, rows, objective, data):
        names, label = single_labels(data.vocab.labels), rows.document.label
        logits = rows.mean_logits()
        prediction = [name for name, yes in zip(names, logits > 0, strict=True) if yes]
        found = predictions.probabilities(names, 1 / (1 + np.exp(-logits)))
        item = predictions.unscored(rows.document, prediction, **found)
        if label is None:
            return item
        gold = [as_known(each, names) for each in single_labels([label])]
        right = 1 - len({*prediction} ^ {*gold}) / len({*names, *gold})
        return item._replace(gold=gold, score=right)
