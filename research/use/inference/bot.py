"""Answers questions from documents: passages are found, then read."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from research.use.inference.language_model import as_texts, check_whole
from research.use.inference.span_reader import SpanReader
from research.use.retrieval.passages import Passage, sentence_spans, terms
from research.use.retrieval.search import Hit, Index

PASSAGES = 20
"""Passages that are read for a question."""


class Answer(NamedTuple):
    """An answer and where it is from."""

    text: str
    score: float  # its probability among all answers and no answer; for a sentence, the
    # fraction of the question's words that it has, weighted by their idf
    passage: str
    document: str
    start: int  # its characters [start, end) in the document
    end: int
    passage_start: int  # the passage's first character there


class Reply(NamedTuple):
    """What a bot replies to a question."""

    answers: list[Answer]  # best first; empty: no answer
    passages: list[Hit]  # that were read, best first
    answer_type: str  # span, or sentence if there is no reader


@dataclasses.dataclass(frozen=True)
class Bot:
    """Answers from the passages of an index.

    Attributes:
      reader: None: an answer is the sentence that shares most with the question.
      threshold: the lowest score of an answer.
    """

    index: Index
    reader: SpanReader | None = None
    threshold: float = 0.05
    num_passages: int = PASSAGES

    def ask(self, questions: Sequence[str], top_k: int = 5) -> list[Reply]:
        """The answers to questions, at most `top_k` each.

        They do not depend on each other.

        Raises:
          UserError: `questions` is not a list of texts, or `top_k` is below 1.
        """
        questions = as_texts("questions", questions)
        check_whole("top_k", top_k, 1)
        found = [self.index.search(each, self.num_passages) for each in questions]
        if self.reader is None:
            answers = [
                self._sentences(question, hits)
                for question, hits in zip(questions, found, strict=True)
            ]
        else:
            texts = [[hit.passage.text for hit in hits] for hits in found]
            spans = self.reader.read(list(zip(questions, texts, strict=True)))
            answers = []
            for hits, own in zip(found, spans, strict=True):
                apart = _apart(
                    _answer(hits[place].passage, start, end, margin)
                    for place, start, end, margin in own
                )
                chances = probabilities([each.score for each in apart])
                answers.append(
                    [a._replace(score=p) for a, p in zip(apart, chances, strict=True)]
                )
        answer_type = "sentence" if self.reader is None else "span"
        enough = [[a for a in own if a.score >= self.threshold] for own in answers]
        return [
            Reply(own[:top_k], hits, answer_type)
            for own, hits in zip(enough, found, strict=True)
        ]

    def _sentences(self, question: str, hits: Sequence[Hit]) -> list[Answer]:
        """The sentences of the passages, best first.

        Ties are ordered by passage.
        """
        weight = {term: self.index.words.idf(term) for term in terms(question)}
        total = sum(weight.values()) or 1.0
        answers = []
        for hit in hits:
            text = hit.passage.text
            for start, end in sentence_spans(text):
                shared = weight.keys() & set(terms(text[start:end]))
                score = sum(weight[term] for term in shared) / total
                answers.append(_answer(hit.passage, start, end, score))
        return _apart(answers)


def _apart(answers: Iterable[Answer]) -> list[Answer]:
    """The answers, best first; of those that overlap, only the best.

    Passages overlap, so an answer may be found in two of them; it counts only once.
    """
    kept: list[Answer] = []
    for each in sorted(answers, key=lambda answer: -answer.score):
        if not any(_overlap(each, other) for other in kept):
            kept.append(each)
    return kept


def _answer(passage: Passage, start: int, end: int, score: float) -> Answer:
    at, text = passage.start, passage.text[start:end]
    return Answer(text, score, passage.text, passage.document, at + start, at + end, at)


def _overlap(one: Answer, other: Answer) -> bool:
    same = one.document == other.document
    return same and one.start < other.end and other.start < one.end


def probabilities(margins: Sequence[float]) -> list[float]:
    """The softmax of log odds against no answer, whose own is 0."""
    largest = max([0.0, *margins])
    odds = [math.exp(margin - largest) for margin in margins]
    total = math.exp(-largest) + sum(odds)
    return [each / total for each in odds]
