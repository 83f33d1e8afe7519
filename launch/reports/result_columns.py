"""Columns of what a run's result has: what it cost, and its scores on tasks."""

import math

import numpy as np

from launch.reports.tables import Column, Curve
from launch.sweeps.trial import Trial

PRETRAINING = "pretraining"
PERPLEXITY = "perplexity"
"""Of a task's targets: a number of tables, beside the metrics of evaluations."""

ITEM_MEANS = {"accuracy": "", "f1": "question_answering"}
"""Metrics that are means of the items' scores, of every objective or of this one."""

OF_100 = ("bleu", "chrf")
"""Metrics that are between 0 and 100 as they are."""

CORRELATIONS = ("pearson", "spearman")
"""Metrics that are not defined where a prediction is constant: 0 here, as in GLUE."""


def masked_perplexity(trial: Trial) -> float:
    """Of masked tokens of the evaluation text."""
    return math.exp(trial.result["metrics"]["valid/mlm"])


def stages(trial: Trial) -> list[Trial]:
    """A pretraining, and those that its parameters come from."""
    origin = trial.parents.get("train.init_from")
    return [trial, *(stages(origin) if origin else ())]


def megatokens(trial: Trial) -> float:
    return sum(stage.result["tokens_seen"] for stage in stages(trial)) / 1e6


def petaflops(trial: Trial) -> float:
    results = [stage.result for stage in stages(trial)]
    return sum(each["flops_per_step"] * each["steps"] for each in results) / 1e15


MASKED_PERPLEXITY = Column("masked-LM ppl", PRETRAINING, masked_perplexity, tested=True)
COSTS = (
    Column("parameters, M", PRETRAINING, lambda t: t.result["parameters"] / 1e6),
    Column("tokens, M", PRETRAINING, megatokens),
    Column("PFLOP", PRETRAINING, petaflops, digits=3),
)
"""What rows cost: a paper's rows are not all equal in it."""

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
    """A metric of a fine-tuning in per cent, or the scores that it is the mean of.

    A perplexity is that of the tokens of the validation split's targets. Any other is
    that of the test split where the task has one, else of the validation split.
    """

    def score(trial: Trial) -> float | np.ndarray:
        metrics, objective = trial.result["metrics"], trial.config["objective.name"]
        if metric == PERPLEXITY:
            return math.exp(metrics["valid/target"])
        split = _shown_split(trial)
        if ITEM_MEANS.get(metric) in ("", objective):
            return 100 * np.array(trial.result["item_scores"][split])
        if metric in CORRELATIONS:
            return 100 * metrics.get(f"{split}/{metric}", 0.0)
        return _percent(metric, metrics[f"{split}/{metric}"])

    return score


def valid_score(metric: str):
    """A metric of the validation split, by which settings are picked."""

    def score(trial: Trial) -> float:
        metrics, name = trial.result["metrics"], f"valid/{metric}"
        if metric == PERPLEXITY:
            return -metrics["valid/loss"]
        return metrics.get(name, 0.0) if metric in CORRELATIONS else metrics[name]

    return score


def task_margin(metric: str):
    """The margin over items of what `task_score` gives; nan: not known."""

    def margin(trial: Trial) -> float:
        margins = trial.result.get("margins", {})
        name = f"{_shown_split(trial)}/{metric}"
        return _percent(metric, margins.get(name, math.nan))

    return margin


def task_column(name: str, task: str, metric: str, *, margin: bool = False) -> Column:
    """The column of a task's metric.

    Args:
      margin: whether a single run's number has its interval over items.
    """
    score, picked_by = task_score(metric), valid_score(metric)
    own_margin = task_margin(metric) if margin else ""
    return Column(name, task, score, 1, True, picked_by, margin=own_margin)


def _shown_split(trial: Trial) -> str:
    return "test" if trial.result["item_scores"].get("test") else "valid"


def _percent(metric: str, value: float) -> float:
    return value if metric in OF_100 else 100 * value
