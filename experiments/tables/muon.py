"""Muon against AdamW at equal steps and at equal time.

palimpsest report --table=experiments/tables/muon.py --workdir=runs/muon
"""

from launch.reports.result_columns import LOSS_CURVES
from launch.reports.tables import Column, Table, labelled_rows
from launch.sweeps.trial import Trial
from research.metrics import LOWER


def loss(trial: Trial) -> float:
    return trial.result["metrics"]["valid/lm"]


TABLE = Table(
    title="Muon against AdamW at equal steps and at equal time",
    row_header="optimizer",
    note=(
        "LM: text, network, batch and, but for the last row, steps are equal. Each "
        "optimizer has the best of its rates, chosen with another seed."
    ),
    rows=labelled_rows,
    columns=(
        Column("steps", "pretraining", lambda trial: trial.result["steps"], 0),
        Column("loss", "pretraining", loss, 3, tested=True, better=LOWER),
    ),
    baseline="adamw",
    curves=LOSS_CURVES,
)
