"""Answers of the bot on SQuAD's JSON, by how passages are found, as a Markdown table.

    python -m experiments.studies.answers \\
        --questions=xquad.en.json --reader=R --encoder=R

R is a run, or hf:DIR. All paragraphs of the file are the documents. A row reads the
paragraph of the question (gold), or the first 1, 5 or 20 passages that are found; EM
and F1 are SQuAD's, in per cent, *found* says how often one of the passages is of the
question's paragraph and has an answer. With --limit N questions are chosen by a hash of
their ids, while all paragraphs stay.
"""

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from launch import cli
from research.data.progress import progress
from research.files.json_files import read_json
from research.metrics import squad
from research.use.inference.open_run import open_run
from research.use.inference.span_reader import SpanReader
from research.use.retrieval.passages import Passage, cut_document
from research.use.retrieval.search import Index, make_index

COUNTS = (1, 5, 20)
NAMES = {"words": "BM25", "vectors": "vectors", "fused": "both"}


def run(args: argparse.Namespace) -> None:
    contexts, questions = read_questions(args.questions)
    if args.limit:
        questions.sort(key=lambda each: hashlib.sha256(each["id"].encode()).digest())
        questions = questions[: args.limit]
    encode = None
    if args.encoder:
        model = open_run(args.encoder)
        encode = lambda texts: model.encode(texts, normalize=True)  # noqa: E731
    reader = SpanReader(open_run(args.reader))
    passages = [
        p for n, each in enumerate(contexts) for p in cut_document(str(n), each)
    ]
    index = make_index(passages, encode)
    methods = NAMES if encode else ("words",)
    scores: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    with progress("questions", len(questions)) as report:
        for number, asked in enumerate(questions, 1):
            for row, found in answer(asked, contexts, index, reader, methods).items():
                scores.setdefault(row, []).append(found)
            report(number, f"{number} questions")
    print(f"| {len(questions)} questions, passages by | read | EM | F1 | found |")
    print("|---|---:|---:|---:|---:|")
    for (name, count), found in scores.items():
        means = " | ".join(f"{100 * each:.1f}" for each in np.mean(found, axis=0))
        print(f"| {name} | {count} | {means} |")


def read_questions(path: str) -> tuple[list[str], list[dict[str, Any]]]:
    """The paragraphs of a file, and its questions, each with `paragraph`, a number."""
    contexts: list[str] = []
    questions = []
    for article in read_json(
        epath.Path(path), "it is to be SQuAD's JSON", {"data": list}
    )["data"]:
        for paragraph in article["paragraphs"]:
            contexts.append(paragraph["context"])
            questions += [
                each | {"paragraph": len(contexts) - 1} for each in paragraph["qas"]
            ]
    return contexts, questions


def answer(
    asked: Mapping[str, Any],
    contexts: Sequence[str],
    index: Index,
    reader: SpanReader,
    methods: Sequence[str],
) -> dict[tuple[str, int], tuple[float, float, float]]:
    """(how passages are found, how many are read) -> EM, F1, and whether they have the
    answer.

    A passage is read once for all rows: its best span does not depend on the others.
    """
    question, home = asked["question"], asked["paragraph"]
    golds = [each["text"] for each in asked["answers"]]
    gold = Passage(contexts[home], str(home), 0, len(contexts[home]))
    hits = {
        each: [hit.passage for hit in index.search(question, COUNTS[-1], each)]
        for each in methods
    }
    read = list(dict.fromkeys([gold, *(p for found in hits.values() for p in found)]))
    (spans,) = reader.read([(question, [passage.text for passage in read])])
    best = {read[span.passage]: span for span in spans}

    def measured(passages: Sequence[Passage]) -> tuple[float, float, float]:
        own = [(best[p].margin, p) for p in passages if p in best]
        text = ""
        if own:
            passage = max(own, key=lambda each: each[0])[1]
            text = passage.text[best[passage].start : best[passage].end]
        found = any(
            p.document == gold.document and any(each in p.text for each in golds)
            for p in passages
        )
        return squad.exact_match(text, golds), squad.f1(text, golds), float(found)

    rows = {("gold", 1): measured([gold])}
    for each, found in hits.items():
        rows |= {(NAMES[each], count): measured(found[:count]) for count in COUNTS}
    return rows


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("--questions", required=True, help="a file of SQuAD's JSON")
    parser.add_argument("--reader", required=True, help="run, or hf:DIR")
    parser.add_argument("--encoder", default="", help="run, or hf:DIR, for vectors")
    parser.add_argument(
        "--limit", type=cli.whole(0, 10**6), default=0, help="questions; 0: all"
    )
    return parser


if __name__ == "__main__":
    sys.exit(cli.main(run, parser()))
