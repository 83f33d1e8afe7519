"""Tables of papers from experiments/claims: rows as the sweep names them."""

import math

import numpy as np

from experiments.paper_tables import benchmarks
from launch.reports.tables import Claimed, Column, Curve, Paper, Table, labelled_rows
from launch.sweeps.published import read_published
from launch.sweeps.trial import Trial

PRETRAINING = "pretraining"

ITEM_MEANS = {"accuracy": "", "f1": "question_answering"}
"""Metrics that are means of the items' scores, of every objective or of this one."""

CORRELATIONS = ("pearson", "spearman")
"""Metrics that are not defined where a prediction is constant: 0 here, as in GLUE."""


def perplexity(trial: Trial) -> float:
    """Of masked tokens of the evaluation text."""
    return math.exp(trial.result["metrics"]["valid/mlm"])


def minus_loss(trial: Trial) -> float:
    return -trial.result["metrics"]["valid/loss"]


def petaflops(trial: Trial) -> float:
    return trial.result["flops_per_step"] * trial.result["steps"] / 1e15


PERPLEXITY = Column("masked-LM ppl", PRETRAINING, perplexity, tested=True)
COSTS = (
    Column("parameters, M", PRETRAINING, lambda t: t.result["parameters"] / 1e6),
    Column("tokens, M", PRETRAINING, lambda t: t.result["tokens_seen"] / 1e6),
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
    """100 times a metric of a fine-tuning, or the items' scores that it is the mean of.

    A perplexity is that of the tokens of the validation split's targets. Any other is
    that of the test split where the task has one, else of the validation split.
    """

    def score(trial: Trial) -> float | np.ndarray:
        metrics, objective = trial.result["metrics"], trial.config["objective.name"]
        if metric == "perplexity":
            return math.exp(metrics["valid/target"])
        split = "test" if trial.result["item_scores"].get("test") else "valid"
        if ITEM_MEANS.get(metric) in ("", objective):
            return 100 * np.array(trial.result["item_scores"][split])
        if metric in CORRELATIONS:
            return 100 * metrics.get(f"{split}/{metric}", 0.0)
        return 100 * metrics[f"{split}/{metric}"]

    return score


def table(
    name: str,
    *,
    title: str,
    note: str,
    baseline: str,
    row_header: str = "",
    more: tuple[Column, ...] = (),
) -> Table:
    """The table of experiments/claims/NAME.toml, with the tasks that are run here.

    Args:
      more: further columns of the pretraining, before those of the tasks.
    """
    paper = read_published(name)
    (numbers, *_) = paper.rows.values()
    columns = [*more]
    for column, parts in benchmarks.columns(tuple(numbers)).items():
        if parts:
            columns.append(Column(column, "", "", digits=1, tested=True, mean_of=parts))
        else:
            task, metric = benchmarks.COLUMNS[column]
            picked_by = f"metrics.valid/{metric}"
            if metric == "perplexity":
                picked_by = minus_loss
            score = task_score(metric)
            columns.append(Column(column, task, score, 1, True, picked_by))
    names = [column.name for column in columns]
    return Table(
        title=title,
        row_header=row_header,
        note=f"{note} The best learning rate of fine-tuning is that of the validation "
        "split, where there are several.",
        rows=labelled_rows,
        columns=(*COSTS, *columns),
        baseline=baseline,
        papers={
            (row, column): Paper(number, paper.source, paper.mark)
            for row, own in paper.rows.items()
            for column, number in own.items()
        },
        claims=tuple(
            Claimed(claim["better"], claim["worse"], claim["metric"], by)
            for claim, by in paper.differences()
            if claim["metric"] in names
        ),
        curves=LOSS_CURVES,
        bars=tuple(names),
    )
