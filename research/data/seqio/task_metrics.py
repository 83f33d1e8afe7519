"""A seqio task's own metrics of written texts: its postprocess_fn and its metric_fns.

They are called as `seqio.Evaluator` calls them (seqio/metrics.py,
`PassthroughLegacyMetric`): a target is the example's `targets_pretokenized`, or else
its decoded ids; a prediction is the decoded written ids; `postprocess_fn` reads either,
with the whole example and `is_target`; each metric reads all targets and predictions.
"""

# N examples, T new tokens

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import seqio

from research.contract.errors import UserError
from research.data.seqio.task_errors import name_line


class ScoredTexts(NamedTuple):
    """What was written for the examples of tasks, and their own metrics."""

    texts: list[tuple[str, str, str]]  # TASK:NUMBER from 1, prediction, gold text
    metrics: dict[str, float]  # TASK/METRIC


def check_metrics(tasks: Iterable[Any]) -> None:
    """Raises UserError: a task has metrics that do not read written texts."""
    for task in tasks:
        with name_line(f"data.task {task.name}"):  # raised for other arguments
            others = [*task.score_metric_fns, *task.predict_with_aux_metric_fns]
            names = list(map(seqio.utils.function_name, others))
        num_objects = len(task.metric_objs) - len(task.metric_fns)
        names += [type(each).__name__ for each in task.metric_objs[:num_objects]]
        if names:
            raise UserError(
                f"data.task {task.name}: {', '.join(names)}: metrics of scores, of "
                "auxiliary values and metric_objs are not computed; a task may have "
                "metric_fns of (targets, predictions)"
            )


def score_texts(
    tasks: Iterable[tuple[Any, Sequence[Mapping]]], written: np.ndarray, pad_id: int
) -> ScoredTexts:
    """The texts of all tasks, in their order, and the metrics of each.

    Args:
      tasks: each with its examples, in the order of an evaluation.
      written: [N, T] token ids for the examples of all tasks, pad after a text's end.

    Raises:
      UserError: the code of a task raises, or two of its metrics have one name.
    """
    rows, texts, metrics = iter(written), [], {}
    for task, examples in tasks:
        vocabulary = task.output_features["targets"].vocabulary
        tokens = (row[row != pad_id].tolist() for row in rows)
        own = itertools.islice(tokens, len(examples))
        predictions = list(map(vocabulary.decode, own))
        golds = [_gold(example, vocabulary) for example in examples]
        found = _own_metrics(task, examples, golds, predictions)
        metrics |= {f"{task.name}/{name}": value for name, value in found.items()}
        texts += [
            (f"{task.name}:{number}", _as_text(prediction), _as_text(gold))
            for number, (prediction, gold) in enumerate(
                zip(predictions, golds, strict=True), start=1
            )
        ]
    return ScoredTexts(texts, metrics)


def _gold(example: Mapping, vocabulary: Any) -> Any:
    if "targets_pretokenized" not in example:
        return vocabulary.decode(list(example["targets"]))
    gold = example["targets_pretokenized"]
    return gold.decode() if isinstance(gold, bytes) else gold


def _as_text(decoded: Any) -> str:
    """The decoded text; if a vocabulary passes ids through, these ids."""
    return decoded.strip() if isinstance(decoded, str) else " ".join(map(str, decoded))


def _own_metrics(
    task: Any, examples: Sequence[Mapping], golds: list, predictions: list
) -> dict[str, float]:
    """The numbers that the task's metrics return; other values are named, left out."""
    if not task.predict_metric_fns:
        return {}
    with name_line(f"data.task {task.name}: its postprocess_fn"):
        targets, found = (
            [
                task.postprocess_fn(text, example=example, is_target=is_target)
                for text, example in zip(texts, examples, strict=True)
            ]
            for texts, is_target in ((golds, True), (predictions, False))
        )
    metrics: dict[str, float] = {}
    for metric_fn in task.predict_metric_fns:
        where = (
            f"data.task {task.name}: its metric {seqio.utils.function_name(metric_fn)}"
        )
        with name_line(where):
            values = dict(metric_fn(targets=targets, predictions=found))
        for name, value in values.items():
            if name in metrics:
                raise UserError(f"{where}: another one has the name {name!r}, too")
            if (number := _number(value)) is None:
                print(f"{where}: {name} is no finite number; left out", file=sys.stderr)
            else:
                metrics[name] = number
    return metrics


def _number(value: Any) -> float | None:
    """A metric's value; None if it is text, an image, ... or not finite."""
    value = value.value if isinstance(value, seqio.metrics.Scalar) else value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
