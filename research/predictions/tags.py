"""A tag of each word: tag and its probability, where weight is above 0, all [B, L].

Words past the row, and those of which the tokenizer leaves no token, have "O" and no
probability.
"""

# B rows, L length

from dataclasses import dataclass

import numpy as np

from research import predictions
from research.data.documents import as_known
from research.data.tokenize.token_offsets import first_token_of_each, token_offsets
from research.metrics import chunks


def _spans(tags, labels):
    """Type, first word and last word of chunks; without a scheme of all words."""
    if chunks.has_scheme(tags, labels):
        return chunks.chunks(tags, labels)
    return [(tag, word, word) for word, tag in enumerate(tags)]


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is the fraction of the words whose tag is right."""

    metrics = ("matthews",)
    of_words = True

    def output_names(self, labels):
        return labels

    def answers(self, item, labels):
        """The chunks of tags of a scheme; else each word's tag, if it was read."""
        ours, theirs = (
            [(name, (first, last)) for name, first, last in _spans(tags, labels)]
            for tags in (item.prediction, item.gold)
        )
        if not chunks.has_scheme(item.prediction, labels):
            read = item.details.get("probabilities", item.prediction)
            ours = [answer for answer in ours if read[answer[1][0]] is not None]
        return ours, theirs

    def item(self, rows, objective, data):
        (arrays,) = rows.arrays
        names, in_row, document = data.vocab.labels, arrays["weight"] > 0, rows.document
        gold = [as_known(each, names) for each in document.arrays["tags"]]
        offsets = token_offsets(document.text, data.vocabulary)
        first = first_token_of_each(offsets, np.array([0, *document.starts]))
        prediction, probabilities = ["O"] * len(gold), [None] * len(gold)
        found = zip(arrays["tag"][in_row], arrays["probability"][in_row], strict=True)
        words = np.flatnonzero(first >= 0).tolist()
        for word, (tag, probability) in zip(words, found, strict=False):
            prediction[word] = names[tag]
            probabilities[word] = predictions.six_digits(probability)
        right = sum(a == b for a, b in zip(prediction, gold, strict=True)) / len(gold)
        item = predictions.unscored(document, prediction, probabilities=probabilities)
        return item._replace(gold=gold, score=right)
