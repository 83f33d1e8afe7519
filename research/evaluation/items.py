"""The items of an evaluation: predictions with gold answers, metrics and margins."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from research.evaluation.jackknife import pseudo_values
from research.evaluation.statistics import estimate, wilson_interval
from research.metrics import Item, Scores, measure, notes, values_of
from research.predictions import Rows, prediction_kind
from research.predictions.text import text_item

JACKKNIFE_GROUPS = 20
"""Number of groups of items, for the intervals of an evaluation's metrics."""


def score_predictions(
    objective: Any, batches: Sequence[Mapping[str, np.ndarray]], data: Any
) -> Scores:
    """The items of an evaluation and their metrics.

    Args:
      batches: `predictions` of each batch of an evaluation, in the order of
        the text.
      data: a `research.data.pipeline.Data` from text, or from a seqio task with inputs
        and targets, whose own metrics are then added as TASK/METRIC.
    """
    if data.task is not None:
        texts, own = data.task.score_texts(batches[0]["written"])
        items = [text_item(*text) for text in texts]
        found = measure("text", items, ()) | own
        return Scores(items, found, notes=notes("text", items))
    kind = prediction_kind(objective.predicts)
    joined = {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
    rows = _rows_of_documents(kind.of_split(joined), data)
    items = [kind.item(each, objective, data) for each in rows]
    golds = [item for item in items if item.gold is not None]
    found = _measure_known(items, objective, data)
    return Scores(items, found, notes=notes(objective.predicts, golds))


def item_margins(items: Sequence[Item], objective: Any, data: Any) -> dict[str, float]:
    """Half the width of the 95 % interval of each metric over draws of the items.

    The network is fixed. For a mean of item scores it is Student's t on these, or
    Wilson's if they are 0 and 1. For other metrics it is Student's t on the
    pseudo-values of a jackknife that leaves out a random twentieth of the items at a
    time; metrics that are undefined on some of these parts have none.
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

    with warnings.catch_warnings():  # a part may have only one label
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
    known, name = [i for i in items if i.gold is not None], objective.predicts
    return measure(name, known, prediction_kind(name).metric_labels(data))


def _rows_of_documents(rows: Mapping[str, np.ndarray], data: Any) -> Iterator[Rows]:
    """The rows of each document, which are adjacent, in the order of the text."""
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
