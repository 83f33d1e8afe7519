"""What a server answers of what models say: vectors with counts, spans with chances."""

from types import SimpleNamespace

import numpy as np
import pytest

from research.use.inference.serving import (
    QuestionInContext,
    embed_function,
    span_function,
)
from research.use.inference.span_reader import Span


def test_each_list_has_its_vectors_and_its_number_of_tokens():
    model = SimpleNamespace(num_tokens=lambda texts: sum(map(len, texts)))
    encode = lambda texts: np.float32([[len(text)] for text in texts])  # noqa: E731
    first, second = embed_function(model, encode)([["ab", "c"], ["def"]])
    assert first.vectors.tolist() == [[2], [1]] and first.num_tokens == 3
    assert second.vectors.tolist() == [[3]] and second.num_tokens == 3


def test_a_span_has_its_text_and_its_probability_beside_no_answer():
    """A margin of log 3 is three times as likely as none; a text may have no span."""
    spans = [[Span(0, 4, 9, float(np.log(3)))], []]
    asked = [QuestionInContext("who", "the river"), QuestionInContext("who", "?")]

    def read(questions):
        assert questions == [("who", ["the river"]), ("who", ["?"])]
        return spans

    (found,), none = span_function(SimpleNamespace(read=read))(asked)
    assert none == []
    expected = {"answer": "river", "score": 0.75, "start": 4, "end": 9}
    assert found == expected | {"score": pytest.approx(0.75)}
