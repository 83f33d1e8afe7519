"""The best learning rate at three widths, with the rates of muP and without.

palimpsest report --table=experiments/tables/width_rates.py --workdir=runs/widths
"""

from experiments.sweeps.width_rates import BASE, WITH, WITHOUT
from launch.reports.tables import Column, OptimumFigure, Table, labelled_rows
from launch.sweeps.trial import Trial
from research.metrics import LOWER


def loss(trial: Trial) -> float:
    return trial.result["metrics"]["valid/lm"]


def rate(trial: Trial) -> float:
    return trial.config["optimizer.learning_rate"]


TABLE = Table(
    title="The best learning rate by width, with muP and without",
    row_header="width",
    note=f"Text, tokens, layers and optimizer are equal; the base width is {BASE}.",
    rows=labelled_rows,
    columns=(
        Column("best rate", "pretraining", rate, 4, picked_by=loss, better=LOWER),
        Column("its loss", "pretraining", loss, 3, picked_by=loss, better=LOWER),
    ),
    optima=(
        OptimumFigure(
            caption="Loss of held-out text over the learning rate.",
            group="pretraining",
            place=rate,
            value=loss,
            line=lambda trial: trial.config["model.width"],
            place_label="learning rate",
            line_label="width",
            value_label="loss, nats",
            panel=lambda t: WITH if t.config["optimizer.base_width"] else WITHOUT,
        ),
    ),
)
