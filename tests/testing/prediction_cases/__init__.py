"""Tasks of every kind of predictions, whose right answers an oracle gives.

The case of a kind is a file here, found by listing the folder.
"""

import functools
import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from research import objectives
from research.config.config import Config
from research.program.setup import open_run_data
from tests.testing import small_data

WORDS = ["ab", "cd", "abc", "ef", "dab", "fg", "gh", "ha"]
LABELS = ("a", "b", "c")
TAGS = ("O", "B-x", "I-x", "B-y")


def write_files(folder):
    """Files of each task, and a vocabulary of their words, in a folder."""
    rng = np.random.default_rng(0)
    config = small_data.config(
        small_data.write_corpus(folder, "t", seed=0), folder / "c"
    )
    data, _ = small_data.open_small(config)
    data.vocabulary.save(folder)

    def text(size):
        return " ".join(rng.choice(WORDS, size))

    rows = [
        {
            "one": text(rng.integers(1, 30)),
            "two": text(rng.integers(2, 30)),
            "options": [text(2) for _ in range(2 + n % 2)],
        }
        | {name: case.column(n) for name, case in cases().items() if case.column}
        for n in range(29)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sentences = [[(w, f"{'BI'[n % 2]}-{w[0]}") for n, w in enumerate(text(9).split())]]
    sentences += [[(word, "O")] for word in WORDS]
    lines = ("\n".join(map(" ".join, sentence)) for sentence in sentences)
    (folder / "words.conll").write_text("\n\n".join(lines))
    paragraphs = [question(n, text(40 + n)) for n in range(9)]
    (folder / "questions.json").write_text(
        json.dumps({"data": [{"paragraphs": paragraphs}]})
    )
    triples = [f"e{n}\tr{n % 2}\te{(n + 1) % 9}\n" for n in range(9)]
    (folder / "graph.triples").write_text("".join(triples))
    captions = [
        json.dumps({"text": row["one"], "image": n}) for n, row in enumerate(rows)
    ]
    (folder / "pictures.captioned").write_text("\n".join(captions))
    return folder


def question(number, context):
    """A paragraph with one question; every third one has no answer."""
    word = context.split()[7 * number % 30 + 1]
    start = context.index(f" {word} ") + 1
    answers = [{"text": word, "answer_start": start}] if number % 3 else []
    row = {"id": f"q{number}", "question": "ab cd?", "answers": answers}
    qas = [row | {"is_impossible": not answers}]
    return {"context": context, "qas": qas}


def task_config(folder, name, file, keys, **fields):
    config = small_data.config(str(folder / "t"), folder / "c", name, **fields)
    config.data.stride, config.data.vocabulary = 0, str(folder)
    config.data.length = 48
    path = str(folder / file)
    keys = {
        k: v.format(folder=folder) if type(v) is str else v for k, v in keys.items()
    }
    config.data.update({"train": path, "valid": path} | keys)
    return config


def open_task(folder, name, file, keys, **fields):
    config = task_config(folder, name, file, keys, **fields)
    objective = objectives.make_objective(**config.objective)
    return objective, open_run_data(Config.of(config))


def one_hot(index, size):
    return (np.arange(size) == np.asarray(index)[..., None]).astype(np.float32)


def _right(prediction, gold):
    return float(prediction == gold)


class Case(NamedTuple):
    """A task whose objective makes predictions of a kind."""

    objective: str
    keys: dict[str, str]
    oracle: Callable  # (batch, vocab) -> right arrays
    draw: Callable  # (rng, n) -> n random predictions
    fields: Mapping[str, Any] = MappingProxyType({})  # of the objective
    file: str = "rows.jsonl"
    score: Callable = _right  # (prediction, gold) of a random item
    best: float = 1.0  # the score of a right item
    gold: Any = None  # what is right, if all items have the same
    as_gold: Callable = lambda drawn: drawn  # a drawn prediction -> as what is right
    labels: tuple[str, ...] = LABELS  # with which random items are measured
    constant: Any = None  # a prediction of which metrics may be undefined; None: drawn
    new_text_fields: Mapping[str, Any] = MappingProxyType({})  # of the objective, to
    # predict new texts
    column: Callable | None = None  # (n) -> the label of row n, in a column that the
    # case is the name of

    def open(self, folder, **keys):
        """Objective and data, of files in a folder."""
        keys = self.keys | keys
        return open_task(folder, self.objective, self.file, keys, **self.fields)

    def predict(self, data):
        """The oracle's arrays of each batch of the evaluation."""
        return [self.oracle(batch, data.vocab) for batch in data.eval.evaluation()]


@functools.cache
def cases() -> dict[str, Case]:
    """Kind of prediction -> its case."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    return {n: importlib.import_module(f"{__name__}.{n}").CASE for n in names}


def draw_texts(rng, count):
    return [" ".join(rng.choice(WORDS, rng.integers(1, 7))) for _ in range(count)]


def draw_labels(rng, count):
    return rng.choice(LABELS, count).tolist()


def draw_ranks(rng, count):
    return rng.integers(1, 30, (count, 2)).tolist()


def of_classes(batch, vocab):
    return {"logits": one_hot(batch["label"], 3)}


def mean_reciprocal(ranks, gold):
    return float(np.mean([1 / rank for rank in ranks]))


PAIR = {"fields": "one,two", "label": "class"}
