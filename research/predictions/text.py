"""A text that the network writes: written [B, T], padded."""

# B rows, T new tokens

from dataclasses import dataclass

from research import predictions
from research.data.documents import document_parts
from research.metrics import Item, chrf


@dataclass(frozen=True)
class Prediction(predictions.Prediction):
    """The score is chrF, as a fraction; the gold text are the parts after the first."""

    is_written = True

    def expected_texts(self, count, fields):
        return ""  # it is written for the first

    def item(self, rows, objective, data):
        (arrays,) = rows.arrays
        written = arrays["written"][arrays["written"] != data.vocab.pad_id]
        prediction = data.vocabulary.decode(written.tolist()).strip()
        document = rows.document
        if not document.starts:
            return predictions.unscored(document, prediction)
        gold = document.text[document.starts[0] :].strip()
        item = text_item(document.id, prediction, gold)
        return item._replace(texts=document_parts(document))


def text_item(id: str, prediction: str, gold: str) -> Item:
    """The item of a text and the one that is right."""
    return Item(id, prediction, gold, chrf.of_one_text(prediction, gold))
