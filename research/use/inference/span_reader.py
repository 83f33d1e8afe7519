"""Reads answers from passages as spans, with a network that answers questions."""

# B rows, L length

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from research import networks
from research.contract.batch import Batch, empty_examples
from research.contract.errors import UserError
from research.data.rows.packing.windows import windows
from research.data.tokenize.token_offsets import TokenOffsets, token_offsets
from research.objectives.tasks.question_answering import (
    Objective as QuestionAnswering,
)
from research.predictions import answer_spans, prediction_kind
from research.use.inference.language_model import LanguageModel

WIDTHS, MAX_WIDTH, ROWS = (128, 256), 384, 8
"""Rows and lengths of what is read at once: whatever is asked, few shapes occur."""


class Span(NamedTuple):
    """The best span of a passage."""

    passage: int  # its number among the passages of the question
    start: int  # its characters [start, end) in the passage
    end: int
    margin: float  # the log odds of the span against no answer


class _Row(NamedTuple):
    """A window over a passage."""

    question: int
    passage: int
    token: list[int]  # the question's, then the window's
    num_question: int
    first: int  # the window's first token in the passage


class SpanReader:
    """The spans of passages that a network reads as answers.

    A passage that is too long is read in windows, as in evaluations.

    Raises:
      UserError: the model reads no spans.
    """

    def __init__(self, model: LanguageModel):
        run = model.run
        kind = run.objective.predicts
        if not (kind and prediction_kind(kind).finds_answers):
            raise UserError(
                f"a model of objective {run.objective.name} reads no answers: a reader "
                "is a run of question_answering, or hf:DIR of a class "
                "...ForQuestionAnswering"
            )
        self._run = run
        self._objective = cast(QuestionAnswering, run.objective)  # it predicts spans
        widest = min(MAX_WIDTH, run.config.data.length)
        self._widths = (*(width for width in WIDTHS if width < widest), widest)
        if self._room(widest) < 2:
            raise UserError(f"the model reads {widest} tokens; a reader needs more")

    def _room(self, width: int) -> int:
        return width - self._objective.num_specials(2)

    def read(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[list[Span]]:
        """For each question, the best span of each of its passages that has any.

        They are sorted by margin, best first.

        A question's answers do not depend on other questions.

        Args:
          asked: questions, each with its passages.
        """
        rows: list[_Row] = []
        offsets: dict[tuple[int, int], TokenOffsets] = {}
        for number, (question, passages) in enumerate(asked):
            for place, passage in enumerate(passages):
                offsets[number, place] = token_offsets(passage, self._run.vocabulary)
                rows += self._rows(number, place, question, passage)
        found = self._windows(rows)
        spans: list[list[Span]] = [[] for _ in asked]
        for (number, place), of_passage in found.items():
            best = answer_spans.best_span(
                of_passage, max_answer=self._objective.max_answer
            )
            if best is None:
                continue
            at = offsets[number, place]
            text = asked[number][1][place]
            start, end = int(at.begin[best.first]), int(at.end[best.last])
            start += len(text[start:end]) - len(text[start:end].lstrip())
            end -= len(text[start:end]) - len(text[start:end].rstrip())
            margin = best.score - answer_spans.null_score(of_passage)
            if start < end:
                spans[number].append(Span(place, start, end, margin))
        for of_question in spans:
            of_question.sort(key=lambda span: -span.margin)
        return spans

    def _rows(self, number: int, place: int, question: str, text: str) -> list[_Row]:
        """The windows over a passage; none if it has no tokens."""
        vocabulary, room = self._run.vocabulary, self._room(self._widths[-1])
        most = max(1, min(self._objective.max_query, room // 2))
        first = vocabulary.encode(question)[0][:most].tolist()
        token = vocabulary.encode(text)[0].tolist()
        left = room - len(first)
        if not token or not first:
            return []
        bounds = np.array([0]), np.array([len(token)]), np.array([left])
        _, begin, size = windows(*bounds, self._objective.stride)
        return [
            _Row(number, place, first + token[at : at + count], len(first), int(at))
            for at, count in zip(begin, size, strict=True)
        ]

    def _windows(
        self, rows: Sequence[_Row]
    ) -> dict[tuple[int, int], list[answer_spans.Window]]:
        """(question, passage) -> the network's output for its windows, in order."""
        width_of = [
            next(width for width in self._widths if len(row.token) <= self._room(width))
            for row in rows
        ]
        said: dict[int, answer_spans.Window] = {}
        for width in self._widths:
            chosen = [n for n, each in enumerate(width_of) if each == width]
            for start in range(0, len(chosen), ROWS):
                group = chosen[start : start + ROWS]
                arrays = self._predict([rows[n] for n in group], width)
                for at, number in enumerate(group):
                    position, size = arrays["context"][at].tolist()
                    said[number] = answer_spans.Window(
                        start=arrays["start"][at],
                        end=arrays["end"][at],
                        score=arrays["score"][at],
                        null=float(arrays["null"][at]),
                        position=position,
                        first=rows[number].first,
                        size=size,
                    )
        found: dict[tuple[int, int], list[answer_spans.Window]] = {}
        for number, row in enumerate(rows):
            found.setdefault((row.question, row.passage), []).append(said[number])
        return found

    def _predict(self, rows: Sequence[_Row], width: int) -> dict[str, np.ndarray]:
        """`predictions` of at most `ROWS` rows, padded to `ROWS`."""
        objective, vocab = self._objective, self._run.vocabulary.vocab
        example = empty_examples(ROWS, self._room(width), vocab.pad_id)
        for at, row in enumerate(rows):
            example.token[at, : len(row.token)] = row.token
            example.length[at] = len(row.token)
            example.first_length[at] = row.num_question
        key = np.zeros(ROWS, np.uint64)
        batch = objective.corrupt(example, key, vocab, width)
        return jax.device_get(self._compiled(self._run.params, batch))

    @functools.cached_property
    def _compiled(self) -> Any:
        """(params, batch) -> predictions of the batch."""

        def predict(params: Any, batch: Batch) -> dict[str, Any]:
            fn = functools.partial(self._objective.predictions, batch=batch)
            return networks.apply(self._run.network, params, fn)

        return jax.jit(predict)

    def warm_up(self) -> None:
        """Compiles all shapes that occur."""
        vocab = self._run.vocabulary.vocab
        token = [int(vocab.ordinary_ids[0])] * 2
        for width in self._widths:
            self._predict([_Row(0, 0, token, 1, 0)], width)
