"""Evaluates parameters on a program's evaluation split: terms, metrics and items."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from research.metrics import Scores
from research.predictions import prediction_kind
from research.program.setup import Program, eval_batches
from research.program.step import host_means

NOTHING_SCORED = "nothing of the split {} is scored: it has no metrics"
"""The line for the user where `evaluate` finds no loss."""


def evaluate(
    program: Program,
    params: Any,
    zeros: tuple[Any, Any],
    before_batch: Callable[[], None] = lambda: None,
    *,
    writes_texts: bool = True,
    with_margins: bool = True,
) -> Scores:
    """Evaluates the whole split; each token has the same weight, each example once.

    Args:
      zeros: the result of `setup.make_eval_zeros`.
      before_batch: called before each batch, also of texts that are written; equally
        often in all processes.
      writes_texts: whether an objective that predicts texts writes them, which takes a
        forward pass for each of their tokens.
      with_margins: whether metrics of items get intervals, which takes twenty times as
        long as the metrics.

    Returns:
      the means of the objective's terms that scored something and, if it predicts, the
      metrics of the predictions (`score_predictions`) and their items.
    """
    (sums, carry), predictions = zeros, []
    for batch in eval_batches(program):
        # One at a time: batches depend on each other only by their sums, and with many
        # in flight a CPU's collectives could find no free thread to meet on.
        before_batch()
        jax.block_until_ready(sums)
        sums, carry, predicted = program.evaluate(params, carry, sums, batch)
        if predicted and program.data.documents is not None:
            predictions.append(jax.device_get(predicted))
    if predictions and (order := program.data.eval.evaluation_order()) is not None:
        predictions = [_in_text_order(predictions, order)]
    name = program.objective.predicts
    if writes_texts and name and prediction_kind(name).is_written:
        from research.evaluation.written_texts import write_texts  # of few objectives

        if program.data.has_gold:
            predictions = [write_texts(program, params, before_batch)]
    means, scores = host_means(jax.device_get(sums)), Scores([], {})
    if predictions:
        from research.evaluation.items import item_margins, score_predictions

        scores = score_predictions(program.objective, predictions, program.data)
        if scores.items and with_margins:
            margins = item_margins(scores.items, program.objective, program.data)
            scores = scores._replace(margins=margins)
    return scores._replace(metrics=means | scores.metrics)


def _in_text_order(
    batches: Sequence[Mapping[str, np.ndarray]], order: np.ndarray
) -> dict[str, np.ndarray]:
    """`predictions` of batches of several lengths, as one batch.

    Args:
      order: `evaluation_order` of their pipeline.
    """
    back = np.argsort(order)
    return {name: _join([b[name] for b in batches])[back] for name in batches[0]}


def _join(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenates arrays [B, ...]; those shorter in axis 1 are padded with zeros."""
    width = max(array.shape[1] for array in arrays) if arrays[0].ndim > 1 else 0
    padded = []
    for array in arrays:
        missing = [0, *(width - size for size in array.shape[1:2])]
        missing += [0] * (array.ndim - len(missing))
        padded.append(np.pad(array, [(0, size) for size in missing]))
    return np.concatenate(padded)
