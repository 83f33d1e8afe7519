"""Losses of networks of several sizes at equal FLOPs.

palimpsest report --table=experiments/tables/isoflop.py --workdir=runs/isoflop
"""

from launch.reports.tables import Column, OptimumFigure, Table, labelled_rows
from launch.sweeps.trial import Trial
from research.metrics import LOWER


def loss(trial: Trial) -> float:
    return trial.result["metrics"]["valid/lm"]


def budget(trial: Trial) -> float:
    """The FLOPs that the trial's row names."""
    return float(trial.row.split()[0])


TABLE = Table(
    title="LM of several sizes at equal FLOPs",
    row_header="budget",
    note="Text, layers, batch and learning rate are equal.",
    rows=labelled_rows,
    columns=(
        Column("parameters, M", "pretraining", lambda t: t.result["parameters"] / 1e6),
        Column("tokens, M", "pretraining", lambda t: t.result["tokens_seen"] / 1e6),
        Column("loss", "pretraining", loss, 3, better=LOWER),
    ),
    optima=(
        OptimumFigure(
            caption="Loss of held-out text over the number of parameters.",
            group="pretraining",
            place=lambda trial: trial.result["parameters"],
            value=loss,
            line=budget,
            place_label="parameters",
            line_label="FLOPs",
            value_label="loss, nats",
        ),
    ),
)
