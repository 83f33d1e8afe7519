"""Formats of annotated text: words with tags (CoNLL, CoNLL-U), questions (SQuAD)."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from research.data.corpora.corpus import (
    ANSWERABLE,
    UNANSWERABLE,
    Document,
    join_parts,
)
from research.data.corpora.row_formats import (
    Format,
    LineError,
    Parsed,
    SkippedRows,
    decode,
    replace_surrogates,
)
from research.errors import unknown

CONLLU_COLUMNS = (
    "id",
    "form",
    "lemma",
    "upos",
    "xpos",
    "feats",
    "head",
    "deprel",
    "deps",
    "misc",
)
"""Names of the columns (universaldependencies.org/format.html)."""


def parse_conll(file: BinaryIO, fmt: Format) -> Parsed:
    """A document for each sentence, whose words are its parts, with their tags.

    A line is a word, in columns between white space; a blank line ends a sentence, and
    a line that begins with -DOCSTART- is none. `fields` is the number of the word's
    column, by default the first, and `label` that of its tag, by default the last.
    """
    word_column, tag_column = fmt.fields or ("0",), fmt.label or "-1"
    try:
        (word_index,), tag_index = map(int, word_column), int(tag_column)
    except ValueError:
        raise LineError(
            1, "CoNLL columns are numbers: data.fields is one, and data.label"
        ) from None
    words: list[tuple[int, str, str]] = []
    width = 0
    for number, line in enumerate(file, 1):
        columns = decode(line, number).split()
        if not columns or columns[0].startswith("-DOCSTART-"):
            yield from _sentence(words)
            words = []
            continue
        width = width or len(columns)
        if len(columns) != width:
            raise LineError(number, f"has {len(columns)} columns, not {width}")
        try:
            if range(width)[word_index] == range(width)[tag_index]:
                raise LineError(
                    number, f"the word's column of {width} is that of its tag"
                )
            words.append((number, columns[word_index], columns[tag_index]))
        except IndexError:
            raise LineError(
                number, f"has {width} columns, none is {word_index} or {tag_index}"
            ) from None
    yield from _sentence(words)


def parse_conllu(file: BinaryIO, fmt: Format) -> Parsed:
    """A document for each sentence; by default with universal part-of-speech tags.

    Multiword tokens (ids such as 3-4) and empty nodes (3.1) are no words.
    """
    form, tag = (*fmt.fields, "form")[0], fmt.label or "upos"
    for name in (form, tag):
        if name not in CONLLU_COLUMNS:
            raise LineError(1, str(unknown("column of CoNLL-U", name, CONLLU_COLUMNS)))
    form_index, tag_index = CONLLU_COLUMNS.index(form), CONLLU_COLUMNS.index(tag)
    words: list[tuple[int, str, str]] = []
    for number, line in enumerate(file, 1):
        text = decode(line, number).rstrip("\r\n")
        if not text:
            yield from _sentence(words)
            words = []
        elif not text.startswith("#"):
            columns = text.split("\t")
            if len(columns) != len(CONLLU_COLUMNS):
                raise LineError(
                    number, f"has {len(columns)} columns between tabs, not 10"
                )
            if columns[0].isdigit():
                words.append((number, columns[form_index], columns[tag_index]))
    yield from _sentence(words)


def _sentence(words: list[tuple[int, str, str]]) -> Iterator[Document]:
    """The document of (line, word, tag) of each word, if there are any."""
    if not words:
        return
    numbers, forms, tags = zip(*words, strict=True)
    for number, word, tag in words:
        if not word.strip() or not tag.strip():
            raise LineError(number, "a word or its tag is blank")
    document = join_parts(forms, " ")
    yield document._replace(arrays={"tags": tags}, id=f":{numbers[0]}")


def parse_squad(file: BinaryIO, fmt: Format) -> Parsed:
    """A document for each question of SQuAD 1.1 or 2.0; its parts: question, context.

    The first answer is the one to train on; all are right (Rajpurkar 2016; 2018).
    """
    content = file.read()
    try:
        questions = list(_questions(json.loads(content)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LineError(
            1, f"not SQuAD's JSON, data > paragraphs > qas ({error!r:.60})"
        ) from error
    misplaced, unanswered = [], []
    for number, (context, question) in enumerate(questions, 1):
        try:
            document, found = question_document(context, question)
        except (KeyError, TypeError, AttributeError) as error:
            raise LineError(
                1,
                f"question {question.get('id')}: not SQuAD's id, question and answers, "
                f"a list of text and answer_start ({error!r:.60})",
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
            f"are not trained on: the answer is not at its answer_start, first that "
            f"of question {first.get('id')}",
        )
    if unanswered:
        reason = "have no answer, and are neither trained on nor scored"
        yield SkippedRows(len(unanswered), unanswered[0], reason)


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

    An answer without text is none: so files are whose answers are hidden.

    Args:
      question: of SQuAD's JSON: id, question, answers; of version 2.0 is_impossible.
    """
    answers = [each for each in question.get("answers") or [] if each["text"].strip()]
    text = replace_surrogates(question["question"])
    document = join_parts([text, context], "\n")._replace(
        id=str(question["id"]), golds=tuple(answer["text"] for answer in answers)
    )
    if question.get("is_impossible"):
        return document._replace(label=UNANSWERABLE, golds=()), True
    if not answers:
        return document, True
    first = answers[0]
    begin = first["answer_start"]
    end = begin + len(first["text"])
    if begin < 0 or context[begin:end] != first["text"]:
        return document, False
    (shift,) = document.starts
    answer = (shift + begin, shift + end)
    return document._replace(label=ANSWERABLE, answer=answer), True
