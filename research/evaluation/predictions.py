"""From the arrays that an objective predicts to items with gold answers, and metrics.

An objective that predicts has `predict(net, batch)`, which returns arrays of a batch's
rows, and `predicts`, which says what they are:

class    logits [B, N] of the labels in `vocab.labels`
set      logits [B, N] of the single labels of documents that have several
number   logits [B, 1], the number itself
choice   logits [B, C] of the choices
tags     tag [B, L] and its probability [B, L], where weight [B, L] is above 0: of each
         word of the row
span     start [B, K], end [B, K, E] and score [B, K, E]: positions of candidates;
         null [B], the score of no answer; context [B, 2]: its first position and
         number of tokens
text     written [B, T], padded, by `written_texts` in place of `predictions`

A document may have several rows: of span these are windows over its context, of class,
set and number chunks of its text, over which the logits are averaged.
"""

# B rows, N labels, C choices, L length, K starts, E ends of each

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from research.data.documents import (
    UNANSWERABLE,
    Document,
    as_known,
    choice_names,
    document_parts,
    single_labels,
)
from research.data.tokenize.token_offsets import first_token_of_each, token_offsets
from research.evaluation import answer_spans
from research.evaluation.jackknife import pseudo_values
from research.evaluation.statistics import estimate, wilson_interval
from research.metrics import Item, Scores, chrf, measure, notes, squad, values_of

MAX_PROBABILITIES = 100
"""Classes whose probabilities an item has: of more the most probable ones."""

JACKKNIFE_GROUPS = 20
"""Parts of the items of an evaluation, for the intervals of its metrics."""


class Rows(NamedTuple):
    """The predictions of one example: a row, or several that are parts of it."""

    document: Document
    arrays: list[Mapping[str, np.ndarray]]  # of each row
    first: list[int]  # of each row, its second span's first token in the document

    def mean_logits(self) -> np.ndarray:
        """[N]: the mean over the rows."""
        return np.mean([row["logits"] for row in self.arrays], axis=0)


def score_predictions(
    objective: Any, batches: Sequence[Mapping[str, np.ndarray]], data: Any
) -> Scores:
    """The items of an evaluation and their metrics.

    Args:
      batches: `predictions` of each batch of an evaluation, in the order of
        the text.
      data: a `research.data.pipeline.Data` made from text, or from a seqio task that
        has inputs and targets: then the task's own metrics are added, as TASK/METRIC.
    """
    if data.task is not None:
        texts, own = data.task.score_texts(batches[0]["written"])
        items = [_written_item(*text) for text in texts]
        found = measure("text", items, ()) | own
        return Scores(items, found, notes=notes("text", items))
    make = _ITEMS[objective.predicts]
    items = [make(objective, rows, data) for rows in _rows_of_documents(batches, data)]
    golds = [item for item in items if item.gold is not None]
    found = _measure_known(items, objective, data)
    return Scores(items, found, notes=notes(objective.predicts, golds))


def item_margins(items: Sequence[Item], objective: Any, data: Any) -> dict[str, float]:
    """Half the width of the 95 % interval of each metric over draws of the items.

    The network is fixed. Of a mean of the items' scores it is Student's t on these, or
    Wilson's where they are 0 and 1. Other metrics need not be means: Student's t on the
    pseudo-values of a jackknife that leaves out a twentieth of the items at a time,
    taken at random; those that are not defined on some of these parts are left out.
    """
    known = [item for item in items if item.gold is not None]
    groups = min(JACKKNIFE_GROUPS, len(known))
    if groups < 2:
        return {}
    shuffled = np.random.default_rng(0).permutation(len(known))
    names = list(_measure_known(known, objective, data))

    def metric(chosen: np.ndarray) -> np.ndarray:
        part = [known[index] for index in shuffled[chosen]]
        found = _measure_known(part, objective, data)
        return np.array([found.get(name, math.nan) for name in names])

    with warnings.catch_warnings():  # a part may have one label alone
        warnings.simplefilter("ignore", UserWarning)
        values = pseudo_values(metric, len(known), num_groups=groups)
    margins = {
        name: estimate(own).margin for name, own in zip(names, values, strict=True)
    }
    declared = values_of(objective.predicts)
    scores = np.array([item.score for item in known], np.float64)
    margins |= {
        name: _mean_margin(scores)
        for name in margins.keys() & declared.keys()
        if declared[name].mean_of_scores
    }
    return {name: margin for name, margin in margins.items() if math.isfinite(margin)}


def _mean_margin(scores: np.ndarray) -> float:
    """Half the width of the 95 % interval of a mean of scores [I]."""
    if np.isin(scores, (0, 1)).all():
        low, high = wilson_interval(float(scores.mean()), len(scores))
        return (high - low) / 2
    return estimate(scores).margin


def _measure_known(
    items: Sequence[Item], objective: Any, data: Any
) -> dict[str, float]:
    """The metrics of the items that have a gold answer."""
    known, labels = [i for i in items if i.gold is not None], data.vocab.labels
    kind = objective.predicts
    ordered = {"class": data.classes, "set": single_labels(labels)}
    return measure(kind, known, ordered.get(kind, labels))


def _rows_of_documents(batches: Sequence[Mapping], data: Any) -> Iterator[Rows]:
    """The rows of each document, which are adjacent, in the order of the text."""
    rows = {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
    documents, number = data.documents(), 0
    for index in data.eval.source.indices:
        offsets = index.stream.document_offsets
        of_row = np.searchsorted(offsets, index.start, side="right") - 1
        second = index.start if index.second is None else index.second
        end = 0
        for document, text in enumerate(islice(documents, index.stream.num_documents)):
            begin, end = end, int(np.searchsorted(of_row, document, side="right"))
            if begin == end:
                continue
            each = range(number + begin, number + end)
            arrays = [{name: rows[name][row] for name in rows} for row in each]
            first = (second[begin:end] - offsets[document]).tolist()
            yield Rows(text, arrays, first)
        number += len(index.start)


def _class_item(objective: Any, rows: Rows, data: Any) -> Item:
    """score: whether it is right."""
    names, logits = data.vocab.labels, rows.mean_logits()
    item = _right_or_wrong(rows.document, names[int(logits.argmax())], names)
    return item._replace(details=_probabilities(names, _softmax(logits)))


def _choice_item(objective: Any, rows: Rows, data: Any) -> Item:
    """score: whether it is right."""
    names, logits = data.vocab.labels, rows.arrays[0]["logits"]
    logits = logits[: len(rows.document.starts)]  # those behind are no choices
    choices = [as_known(name, names) for name in choice_names(names)[: len(logits)]]
    item = _right_or_wrong(rows.document, choices[int(logits.argmax())], names)
    return item._replace(details=_probabilities(choices, _softmax(logits)))


def _right_or_wrong(document: Document, prediction: str, known: Sequence[str]) -> Item:
    if document.label is None:
        return _item(document, prediction)
    gold = as_known(document.label, known)
    return _item(document, prediction, gold, float(prediction == gold))


def _item(
    document: Document,
    prediction: Any,
    gold: Any = None,
    score: float | None = None,
    **details: Any,
) -> Item:
    texts = document_parts(document)
    return Item(document.id, prediction, gold, score, texts, details)


def _softmax(logits: np.ndarray) -> np.ndarray:
    exp = np.exp(logits - logits.max())
    return exp / exp.sum()


def _probabilities(names: Sequence[str], values: np.ndarray) -> dict[str, Any]:
    """The probabilities [N] by name, as details: the highest first."""
    order = np.argsort(-values, kind="stable")[:MAX_PROBABILITIES]
    return {"probabilities": {names[n]: _digits(values[n]) for n in order}}


def _digits(value: float) -> float:
    """A number as it is written: with six significant digits."""
    return float(f"{value:.6g}")


def _set_item(objective: Any, rows: Rows, data: Any) -> Item:
    """score: the fraction of all labels that is right."""
    names, label = single_labels(data.vocab.labels), rows.document.label
    logits = rows.mean_logits()
    prediction = [name for name, yes in zip(names, logits > 0, strict=True) if yes]
    details = _probabilities(names, 1 / (1 + np.exp(-logits)))
    if label is None:
        return _item(rows.document, prediction, **details)
    gold = [as_known(each, names) for each in single_labels([label])]
    right = 1 - len({*prediction} ^ {*gold}) / len({*names, *gold})
    return _item(rows.document, prediction, gold, right, **details)


def _number_item(objective: Any, rows: Rows, data: Any) -> Item:
    """score: minus the squared error."""
    prediction, label = float(rows.mean_logits()[0]), rows.document.label
    if label is None:
        return _item(rows.document, prediction)
    gold = float(label)
    return _item(rows.document, prediction, gold, -((prediction - gold) ** 2))


def _tags_item(objective: Any, rows: Rows, data: Any) -> Item:
    """score: the fraction of the words that is right; words past the row, and those of
    which the tokenizer leaves no token, have "O" and no probability."""
    (arrays,) = rows.arrays
    names, in_row, document = data.vocab.labels, arrays["weight"] > 0, rows.document
    gold = [as_known(each, names) for each in document.arrays["tags"]]
    offsets = token_offsets(document.text, data.vocabulary)
    first = first_token_of_each(offsets, np.array([0, *document.starts]))
    prediction, probabilities = ["O"] * len(gold), [None] * len(gold)
    found = zip(arrays["tag"][in_row], arrays["probability"][in_row], strict=True)
    words = np.flatnonzero(first >= 0).tolist()
    for word, (tag, probability) in zip(words, found, strict=False):
        prediction[word], probabilities[word] = names[tag], _digits(probability)
    right = sum(a == b for a, b in zip(prediction, gold, strict=True)) / len(gold)
    return _item(document, prediction, gold, right, probabilities=probabilities)


def _span_item(objective: Any, rows: Rows, data: Any) -> Item:
    """score: F1."""
    windows = [
        answer_spans.Window(
            row["start"],
            row["end"],
            row["score"],
            float(row["null"]),
            int(row["context"][0]),
            first,
            size,
        )
        for row, first in zip(rows.arrays, rows.first, strict=True)
        if (size := int(row["context"][1]))
    ]
    document, no_answers = rows.document, UNANSWERABLE in data.vocab.labels
    best = answer_spans.best_span(windows, max_answer=objective.max_answer)
    prediction, details = "", {}
    if best is not None:
        null = answer_spans.null_score(windows)
        details = {
            "answer_score": _digits(best.score),
            "no_answer_score": _digits(null),
        }
        if objective.head != "joint":  # which has a logit of its own for it
            null -= best.score
        if not no_answers or null <= objective.null_threshold:
            offsets = token_offsets(document.text, data.vocabulary)
            begin, end = offsets.begin[best.first], offsets.end[best.last]
            prediction = document.text[begin:end].strip()
    if not document.golds and document.label != UNANSWERABLE:
        return _item(document, prediction, **details)
    golds = squad.answers_to_score(document.golds, no_answers=no_answers)
    f1 = squad.f1(prediction, golds, no_answers=no_answers)
    return _item(document, prediction, golds, f1, **details)


def _text_item(objective: Any, rows: Rows, data: Any) -> Item:
    """score: chrF, as a fraction; the gold text are the parts after the first."""
    (arrays,) = rows.arrays
    written = arrays["written"][arrays["written"] != data.vocab.pad_id]
    prediction = data.vocabulary.decode(written.tolist()).strip()
    document = rows.document
    if not document.starts:
        return _item(document, prediction)
    gold = document.text[document.starts[0] :].strip()
    item = _written_item(document.id, prediction, gold)
    return item._replace(texts=document_parts(document))


def _written_item(id: str, prediction: str, gold: str) -> Item:
    return Item(id, prediction, gold, chrf.of_one_text(prediction, gold))


_ITEMS: dict[str, Callable[[Any, Rows, Any], Item]] = {
    "class": _class_item,
    "set": _set_item,
    "number": _number_item,
    "choice": _choice_item,
    "tags": _tags_item,
    "span": _span_item,
    "text": _text_item,
}
