"""Tables of papers from experiments/claims: rows as the sweep names them."""

import math
from collections.abc import Collection, Mapping

import numpy as np

from experiments.paper_tables import benchmarks
from launch.reports.tables import Claimed, Column, Curve, Paper, Table, labelled_rows
from launch.sweeps.published import Published, read_published
from launch.sweeps.trial import Trial

PRETRAINING = "pretraining"

ITEM_MEANS = {"accuracy": "", "f1": "question_answering"}
"""Metrics that are means of the items' scores, of every objective or of this one."""

OF_100 = ("bleu", "chrf")
"""Metrics that are between 0 and 100 as they are."""

CORRELATIONS = ("pearson", "spearman")
"""Metrics that are not defined where a prediction is constant: 0 here, as in GLUE."""


def perplexity(trial: Trial) -> float:
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


PERPLEXITY = Column("masked-LM ppl", PRETRAINING, perplexity, tested=True)
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
        if metric == "perplexity":
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
        if metric == "perplexity":
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


def task_column(task: str, metric: str) -> Column:
    """The column of a task's metric, with the interval over items of a single run."""
    name, picked_by = f"{task} ({metric})", valid_score(metric)
    score, margin = task_score(metric), task_margin(metric)
    return Column(name, task, score, 1, True, picked_by, margin=margin)


def benchmark_table(
    metrics: Mapping[str, str],
    *,
    title: str,
    note: str,
    baseline: str,
    more: tuple[Column, ...] = (),
) -> Table:
    """The table of a sweep of ours: pretrainings, each tuned on the same tasks.

    Args:
      metrics: task -> its metric.
      more: further columns of the pretraining, before those of the tasks.
    """
    return Table(
        title=title,
        row_header="objective",
        note=note,
        rows=labelled_rows,
        columns=(*COSTS, *more, *(task_column(*each) for each in metrics.items())),
        baseline=baseline,
        curves=LOSS_CURVES,
    )


def _shown_split(trial: Trial) -> str:
    return "test" if trial.result["item_scores"].get("test") else "valid"


def _percent(metric: str, value: float) -> float:
    return value if metric in OF_100 else 100 * value


def claimed(paper: Published, columns: Collection[str]) -> tuple[Claimed, ...]:
    """What a published table says of some columns."""
    return tuple(
        Claimed(claim["better"], claim["worse"], claim["metric"], by)
        for claim, by in paper.differences()
        if claim["metric"] in columns
    )


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
            stand_in = benchmarks.PARTIAL.get(column, "")
            shown = {"digits": 1, "tested": True, "stand_in": stand_in}
            columns.append(Column(column, "", "", mean_of=parts, **shown))
        else:
            task, metric = benchmarks.COLUMNS[column]
            score, picked_by = task_score(metric), valid_score(metric)
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
        claims=claimed(paper, names),
        curves=LOSS_CURVES,
        bars=tuple(names),
    )
