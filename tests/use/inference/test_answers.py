"""The table of answers reads each passage once, and the best span of a row counts."""

import json

from experiments.studies import answers
from research.use.inference.span_reader import Span
from research.use.retrieval.passages import cut_document
from research.use.retrieval.search import make_index

PARAGRAPHS = ["The Elbe ends in the North Sea.", "The Oder ends in the Baltic Sea."]


class Reader:
    """Reads the last word but one, and likes the Oder better."""

    def __init__(self):
        self.read_texts = []

    def read(self, asked):
        ((_, passages),) = asked
        self.read_texts += passages
        found = []
        for number, text in enumerate(passages):
            start = text.rindex("the ") + 4
            margin = 2.0 if "Oder" in text else 1.0
            found.append(Span(number, start, len(text) - 1, margin))
        return [sorted(found, key=lambda span: -span.margin)]


def test_rows_have_their_own_passages(tmp_path):
    asked = {"id": "q", "question": "Where does the Elbe end?"}
    asked["answers"] = [{"text": "North Sea", "answer_start": 21}]
    paragraphs = [
        {"context": text, "qas": [asked] if "Elbe" in text else []}
        for text in PARAGRAPHS
    ]
    (tmp_path / "qa.json").write_text(
        json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]})
    )
    contexts, (question,) = answers.read_questions(str(tmp_path / "qa.json"))
    assert contexts == PARAGRAPHS and question["paragraph"] == 0
    documents = enumerate(contexts)
    passages = [p for n, text in documents for p in cut_document(str(n), text)]
    reader = Reader()
    rows = answers.answer(question, contexts, make_index(passages), reader, ("words",))
    assert len(reader.read_texts) == len(set(reader.read_texts)) == 2
    assert rows["gold", 1] == rows["BM25", 1] == (1.0, 1.0, 1.0)
    assert rows["BM25", 5] == rows["BM25", 20] == (0.0, 0.5, 1.0)  # Baltic Sea
