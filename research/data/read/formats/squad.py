"""SQuAD's JSON: questions about contexts, version 1.1 or 2.0."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from research.data.documents import ANSWERABLE, UNANSWERABLE, Document, join_parts
from research.data.read.formats import (
    EncodingError,
    FileFormat,
    FileOptions,
    LineError,
    Parsed,
    RowReader,
    SkippedRows,
)
from research.data.read.formats.parsing.values import flag_of, offset_of, text_of


@dataclass(frozen=True)
class Format(FileFormat):
    """A document is a question; its parts are the question and the context.

    The first answer is the training target; all are correct (Rajpurkar 2016; 2018).
    """

    suffixes = (".squad", ".json")
    example = (
        b'{"data": [{"paragraphs": [{"context": "A b.", "qas": [{"id": "1", '
        b'"question": "What?", "answers": [{"text": "b", "answer_start": 2}]}]}]}]}'
    )
    version = 2  # version 1 stored other tokens for an answer

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        content = file.read()
        try:
            questions = list(_questions(json.loads(content)))
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise EncodingError(line, f"not UTF-8 ({error.reason})") from error
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise LineError(
                1, f"not SQuAD's JSON, data > paragraphs > qas ({error!r:.60})"
            ) from error
        misplaced, unanswered = [], []
        for number, (context, question) in enumerate(questions, 1):
            try:
                document, found = question_document(context, question)
            except ValueError as error:
                raise LineError(1, f"question {question.get('id')}: {error}") from error
            except (KeyError, TypeError, AttributeError) as error:
                raise LineError(
                    1,
                    f"question {question.get('id')}: not SQuAD's id, question and "
                    f"answers, a list of text and answer_start ({error!r:.60})",
                ) from error
            if not found:
                misplaced.append(number)
            elif document.label is None:
                unanswered.append(number)
            yield document
        if misplaced:
            first = questions[misplaced[0] - 1][1]
            yield SkippedRows(
                len(misplaced),
                misplaced[0],
                "not trained on: the answer is not at its answer_start, first "
                f"that of question {first.get('id')}",
            )
        if unanswered:
            reason = "no answer, so neither trained on nor scored"
            yield SkippedRows(len(unanswered), unanswered[0], reason)

    def row_reader(
        self, features: Mapping[str, Any], options: FileOptions
    ) -> RowReader:
        return RowReader(("context", "question", "answers", "id"), _row_document)


def _row_document(row: Mapping[str, Any]) -> tuple[Document, str]:
    """The document of a row, and what is wrong with it, or ""."""
    answers = row["answers"]
    question = {
        "id": row["id"].decode(),
        "question": row["question"].decode("utf-8", "replace"),
        "is_impossible": bool(row.get("is_impossible", False)),
        "answers": [
            {"text": text.decode("utf-8", "replace"), "answer_start": int(start)}
            for text, start in zip(
                answers["text"], answers["answer_start"], strict=True
            )
        ],
    }
    context = row["context"].decode("utf-8", "replace")
    document, found = question_document(context, question)
    if not found:
        return document, "not trained on: the answer is not at its answer_start"
    missing = "have no answer, and are neither trained on nor scored"
    return document, "" if document.label else missing


def _questions(content: Any) -> Iterator[tuple[str, dict]]:
    """(context, question) of each question."""
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                if not paragraph["context"].strip() or not question["question"].strip():
                    raise ValueError(f"{question['id']}: blank text")
                yield paragraph["context"], question


def question_document(context: str, question: dict) -> tuple[Document, bool]:
    """The document of a question, and whether its answer is at its offset.

    An answer without text counts as missing, as in files with hidden answers.

    Args:
      question: a question of SQuAD's JSON: id, question, answers, and in version 2.0
        is_impossible.
    """
    answers = [each for each in question.get("answers") or [] if each["text"].strip()]
    golds = tuple(text_of(answer["text"]) for answer in answers)
    context = text_of(context)
    document = join_parts([text_of(question["question"]), context], "\n")._replace(
        id=str(question["id"]), golds=golds
    )
    if flag_of(question.get("is_impossible"), "is_impossible"):
        return document._replace(label=UNANSWERABLE, golds=()), True
    if not answers:
        return document, True
    first = answers[0]
    begin = offset_of(first["answer_start"], "answer_start")
    end = begin + len(golds[0])
    if begin < 0 or context[begin:end] != golds[0]:
        return document, False
    (shift,) = document.starts
    answer = (shift + begin, shift + end)
    return document._replace(label=ANSWERABLE, answer=answer), True
