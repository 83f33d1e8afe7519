"""Pairs of texts whose similarity people have rated, and a run's evaluation of them."""

import math

from research.config.config import Config
from research.contract.errors import UserError, renamed_keys
from research.data.documents import Document, document_parts
from research.data.options import DataOptions
from research.data.pipeline import Pipeline
from research.data.source.build import open_split, split_corpora
from research.metrics import Scores
from research.metrics.correlations import Metric
from research.objectives import Objective
from research.program.setup import Program, with_evaluation

CORRELATIONS = tuple(value.name for value in Metric.values)


def read_pairs(data: DataOptions, objective: Objective) -> list[Document]:
    """The pairs of data.test.

    Raises:
      UserError: the file has no pairs, one is not two texts, a label is not a number,
        or data.label is given and no pair has one.
    """
    (corpus,) = split_corpora(data, objective, "test")
    pairs = [*corpus.documents("test")]
    if not pairs:
        raise UserError(f"data.test={data.test} has no texts")
    if data.label and all(pair.label is None for pair in pairs):
        raise UserError(f"data.label={data.label}: no row of {data.test} has it")
    for pair in pairs:
        if (count := len(document_parts(pair))) != 2:
            raise UserError(
                f"{pair.id}: a pair has 2 texts, got {count}; data.fields=A,B names "
                "their columns"
            )
        if pair.label is not None and not _is_number(pair.label):
            raise UserError(
                f"{pair.id}: data.label must be a number, got {pair.label!r}"
            )
    return pairs


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False


def rated_program(program: Program, config: Config) -> Program | None:
    """The program that predicts the pairs of a run; None: it has none.

    Raises:
      UserError: see `read_pairs`; or the run's vocabulary is not ours.
    """
    found = program.objective.rated_pairs(config.data)
    if found is None:
        return None
    if program.data.vocabulary is None:
        raise UserError(
            f"{found.keys['data.test']} needs a vocabulary, but data.task="
            f"{config.data.task} has tokens alone; leave it out"
        )
    objective, size = found.objective, config.train.batch
    with renamed_keys(found.keys):
        pairs = read_pairs(found.data, objective)
        source = open_split(
            found.data,
            objective,
            program.data.vocabulary,
            program.data.vocab,
            batch_size=size,
        )
    data = program.data._replace(
        eval=Pipeline(source, size),
        documents=lambda: iter(pairs),
        fingerprint=source.fingerprint,
    )
    return with_evaluation(program, objective, data)


def correlations(scores: Scores) -> Scores:
    """The metrics of an evaluation of pairs: correlations, and their margins."""
    found, margins = (
        {name: value for name, value in each.items() if name in CORRELATIONS}
        for each in (scores.metrics, scores.margins)
    )
    return Scores([], found, margins)
