"""What a server does with models, in shapes compiled before the first request."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.use.inference.bot import probabilities
from research.use.inference.language_model import LanguageModel
from research.use.inference.span_reader import SpanReader

Encode = Callable[[Sequence[str]], np.ndarray]


class QuestionInContext(NamedTuple):
    """A question about a context of its own."""

    question: str
    context: str


class Embedded(NamedTuple):
    """Vectors of texts."""

    vectors: np.ndarray  # float32 [texts, D], of length 1
    num_tokens: int  # of all texts, special ones included


def embed_function(
    model: LanguageModel, encode: Encode
) -> Callable[[Sequence[Sequence[str]]], list[Embedded]]:
    """Lists of texts -> their vectors."""

    def embed(lists: Sequence[Sequence[str]]) -> list[Embedded]:
        return [Embedded(encode(each), model.num_tokens(each)) for each in lists]

    return embed


def embedder(
    model: LanguageModel, report: Callable[[str], None] = lambda line: None
) -> tuple[Encode, Encode]:
    """Two functions of texts to vectors [n, D] of length 1.

    One reads many texts at once; the other reads them one by one, and its shapes are
    all compiled here.

    Args:
      report: is called with a line that says what is compiled.
    """

    def encode(texts: Sequence[str]) -> np.ndarray:
        return model.encode(texts, normalize=True)

    def encode_one(texts: Sequence[str]) -> np.ndarray:
        return model.encode(texts, normalize=True, batch=1)

    texts = model.texts_of_all_widths()
    for number, text in enumerate(texts, 1):
        report(f"encoder: compiling shape {number} of {len(texts)}")
        encode_one([text])
    return encode, encode_one


def span_function(
    reader: SpanReader,
) -> Callable[[Sequence[QuestionInContext]], list[list[dict[str, Any]]]]:
    """A function from questions about contexts to question-answering results.

    The results are Hugging Face's: the best span, with its probability relative to no
    answer.
    """

    def read(asked: Sequence[QuestionInContext]) -> list[list[dict[str, Any]]]:
        spans = reader.read([(each.question, [each.context]) for each in asked])
        results = []
        for each, own in zip(asked, spans, strict=True):
            chances = probabilities([span.margin for span in own])
            results.append(
                [
                    {
                        "answer": each.context[span.start : span.end],
                        "score": chance,
                        "start": span.start,
                        "end": span.end,
                    }
                    for span, chance in zip(own, chances, strict=True)
                ]
            )
        return results

    return read
