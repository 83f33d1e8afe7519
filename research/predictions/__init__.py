"""Kinds of predictions: from the arrays that an objective predicts to scored items.

An objective names its kind by `predicts`. A module here defines a frozen dataclass
`Prediction(predictions.Prediction)` without fields. It names the metrics that measure
it, or a new metric names it (research/metrics). A document may have several rows: of
span these are windows over its context, of class, set and number chunks of its text,
over which the logits are averaged.
"""

# B rows, N labels

import abc
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.contract.parts import Folder
from research.data.documents import Document, as_known, document_parts
from research.metrics import Item

FOLDER = Folder("research.predictions", "Prediction")

MAX_PROBABILITIES = 100
"""Classes whose probabilities an item has: of more the most probable ones."""


class Rows(NamedTuple):
    """The predictions of one example: a row, or several that are parts of it."""

    document: Document
    arrays: list[Mapping[str, np.ndarray]]  # of each row
    first: list[int]  # of each row, its second span's first token in the document

    def mean_logits(self) -> np.ndarray:
        """[N]: the mean over the rows."""
        return np.mean([row["logits"] for row in self.arrays], axis=0)


class Prediction(abc.ABC):
    """The base of all kinds."""

    metrics: tuple[str, ...] = ()
    """Names of metrics that measure it, beside those whose `kinds` have it."""

    finds_answers: bool = False
    """Whether it is a place in a context, which answers a question."""

    is_written: bool = False
    """Whether an evaluation writes texts, in place of `Objective.predictions`."""

    open_labels: bool = False
    """Whether a split may have labels that the training text lacks."""

    of_words: bool = False
    """Whether each word of a text has a prediction."""

    is_one_label: bool = False
    """Whether prediction and gold answer are one label each, of which one is taken for
    another: an evaluation counts which for which."""

    distribution: str = "softmax"
    """Of what a head's values are logits, as distillation compares them: softmax: one
    of all labels; sigmoid: each label by itself; "": they are no logits."""

    of_texts: bool = True
    """Whether what is predicted is about a text that a user may write."""

    example: str = '"a text"'
    """The arguments of `palimpsest predict` for one example, as a shell has them."""

    columns: str = ""
    """data.fields of tables of new examples, of a task whose training files are no
    tables; "": those of the run."""

    problem_type: str = ""
    """Hugging Face's word for classifiers of this kind; "": it has none."""

    is_pooled: bool = False
    """Whether the head reads one state of a row."""

    def expected_texts(self, count: int, fields: Sequence[str]) -> str:
        """The texts that an example must have, if it may not have `count`; else "".

        Args:
          fields: the columns of data.fields, () if a run names none.
        """
        is_right = not fields or count == len(fields)
        return "" if is_right else f"{len(fields)}: {', '.join(fields)}"

    def new_text_labels(self, objective: Any) -> Sequence[str]:
        """The labels with which new text is read, if a head's values have no names.

        (): a run, or config.json, names them.
        """
        return ()

    def text_labels(self, labels: Sequence[str]) -> Sequence[str]:
        """Of a run's labels those with which new text is read; (): see above."""
        return self.output_names(labels)

    def output_names(self, labels: Sequence[str]) -> Sequence[str]:
        """The names of the values of a head that predicts the labels of a vocabulary.

        () if they have none.
        """
        return ()

    def metric_labels(self, data: Any) -> Sequence[str]:
        """The labels that metrics are measured with: see `Metric.measure`."""
        return data.vocab.labels

    def answers(
        self, item: Item, labels: Sequence[str]
    ) -> tuple[Sequence[Hashable], Sequence[Hashable]] | None:
        """What an item predicts and what is right, as answers that have a label each.

        An answer is a pair: its label, and which one of the item it is. Precision and
        recall of a label count the pairs that both have. None: the kind has no labels.
        """
        return None

    def of_split(self, rows: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The arrays of `item`, from the predictions of all rows of a split."""
        return rows

    @abc.abstractmethod
    def item(self, rows: Rows, objective: Any, data: Any) -> Item:
        """The prediction of an example, with its gold answer and score.

        Args:
          data: a `research.data.pipeline.Data` made from text.
        """


def prediction_kind(name: str) -> Prediction:
    """The kind of predictions of this name."""
    return FOLDER.part_class(name, "predicts")()


def unscored(document: Document, prediction: Any, **details: Any) -> Item:
    """An item whose gold answer is unknown.

    Args:
      details: more of the prediction, which its line of JSON has.
    """
    parts = document_parts(document)
    return Item(document.id, prediction, None, None, parts, details)


def right_or_wrong(document: Document, prediction: str, known: Sequence[str]) -> Item:
    """An item whose score is 1 if its prediction is the document's label, else 0."""
    item = unscored(document, prediction)
    if document.label is None:
        return item
    gold = as_known(document.label, known)
    return item._replace(gold=gold, score=float(prediction == gold))


def softmax(logits: np.ndarray) -> np.ndarray:
    """[N]: probabilities of logits [N]."""
    exp = np.exp(logits - logits.max())
    return exp / exp.sum()


def probabilities(names: Sequence[str], values: np.ndarray) -> dict[str, Any]:
    """The probabilities [N] by name, as details: the highest first."""
    order = np.argsort(-values, kind="stable")[:MAX_PROBABILITIES]
    return {"probabilities": {names[n]: six_digits(values[n]) for n in order}}


def six_digits(value: float) -> float:
    """A number as it is written: with six significant digits."""
    return float(f"{value:.6g}")
