"""Columns with scores of tasks, from fine-tuning's results; curves of losses."""

import math

import numpy as np

from launch.reports.columns import PRETRAINING
from launch.reports.tables import Column, Curve, metric_value
from launch.sweeps.benchmarks import PERPLEXITY
from launch.sweeps.trial import Trial
from research import metrics
from research.contract.errors import UserError, unknown
from research.metrics import HIGHER, LOWER, Value

LOSS_CURVES = tuple(
    Curve(
        f"Loss of pretraining over {words}; each panel has its own scale",
        PRETRAINING,
        ("train/loss", "valid/loss"),
        over,
    )
    for over, words in (
        ("tokens", "tokens seen"),
        ("flops", "FLOPs"),
        ("time", "the time of its steps"),
    )
)


def task_score(metric: str):
    """A metric of a fine-tuning in per cent, or the scores of items that it averages.

    A perplexity is that of the validation split's target tokens. Other metrics are from
    the test split if the task has one, else from the validation split.
    """

    def score(trial: Trial) -> float | np.ndarray:
        if metric == PERPLEXITY:
            return math.exp(metric_value("metrics.valid/target", trial))
        split, value = _shown_split(trial), _value(metric, trial)
        if value.mean_of_scores:
            return value.percent(np.array(trial.result["item_scores"][split]))
        return value.percent(_measured(value, split, trial))

    return score


def valid_score(metric: str):
    """The validation metric that selects the setting; for a perplexity, the loss."""

    def score(trial: Trial) -> float:
        if metric == PERPLEXITY:
            return metric_value("metrics.valid/loss", trial)
        return _measured(_value(metric, trial), "valid", trial)

    return score


def task_margin(metric: str):
    """The margin of `task_score` over items; nan: unknown."""

    def margin(trial: Trial) -> float:
        margins = trial.result.get("margins", {})
        name = f"{_shown_split(trial)}/{metric}"
        return _value(metric, trial).percent(margins.get(name, math.nan))

    return margin


def task_column(name: str, task: str, metric: str, *, margin: bool = False) -> Column:
    """The column of a task's metric.

    Args:
      margin: whether a single run's number has its interval over items.
    """
    score, picked_by = task_score(metric), valid_score(metric)
    more = {"margin": task_margin(metric)} if margin else {}
    better = LOWER if metric == PERPLEXITY or metrics.signs()[metric] < 0 else HIGHER
    if (least := metrics.bounded().get(metric)) is not None:
        more |= {"least": least, "most": 100.0}
    return Column(name, task, score, 1, True, picked_by, better=better, **more)


def _value(metric: str, trial: Trial) -> Value:
    """The declaration of a metric of a trial's predictions.

    Raises:
      UserError: its predictions do not have this metric.
    """
    values = metrics.values_of(trial.objective.predicts)
    if metric not in values:
        raise unknown(f"metric of {trial.name}", metric, values)
    return values[metric]


def _measured(value: Value, split: str, trial: Trial) -> float:
    """A metric of a result; if it is undefined, the value that tables show instead."""
    found = trial.result["metrics"].get(f"{split}/{value.name}", value.undefined_counts)
    if found is None:
        raise UserError(
            f"{trial.name} has no {split}/{value.name}: "
            f"{value.undefined or 'it is of an earlier version'}"
        )
    return found


def _shown_split(trial: Trial) -> str:
    return "test" if trial.result["item_scores"].get("test") else "valid"
