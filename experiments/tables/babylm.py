"""BabyLM: objectives on little text, at most ten epochs.

python -m launch.report --table=experiments/tables/babylm.py --workdir=runs/babylm
"""

import json

import numpy as np

from experiments.paper_tables import published
from experiments.sweeps.babylm import TASKS
from launch.reports.tables import Column, Table, labelled_rows
from launch.sweeps.trial import Trial


def blimp_files(trial: Trial) -> list:
    """What `launch.score --task=blimp` wrote for a run, the last step last."""
    files = trial.folder.glob("evaluations/blimp-*/scores.jsonl")
    return sorted(files, key=lambda file: int(file.parent.name.split("-")[-2]))


def is_scored(trial: Trial) -> bool:
    return bool(blimp_files(trial)) or not trial.gives_scores


def blimp(trial: Trial) -> np.ndarray | None:
    """100 for each pair whose good sentence has the higher score, 50 for a tie."""
    if not trial.gives_scores:
        return None
    credits = []
    for line in blimp_files(trial)[-1].read_text().splitlines():
        good, bad = (score["log_prob"] for score in json.loads(line)["scores"])
        credits.append(50.0 * ((good > bad) + (good >= bad)))
    return np.array(credits)


def task_column(name: str) -> Column:
    picked_by = "metrics.valid/accuracy"
    return Column(name, name, published.task_score("accuracy"), 1, True, picked_by)


TABLE = Table(
    title="Objectives on little text (BabyLM)",
    row_header="objective",
    note=(
        "Text, order, tokens, vocabulary, width, number of layers and optimizer are "
        "equal; parameters and FLOPs are not. Empty cells of BLiMP are filled by "
        "python -m launch.score --workdir=SWEEP --task=blimp --data=FILES; some "
        "objectives give a text no score."
    ),
    rows=labelled_rows,
    columns=(
        *published.COSTS,
        Column("BLiMP", published.PRETRAINING, blimp, 1, tested=True, ready=is_scored),
        *map(task_column, TASKS),
        Column("mean of tasks", "", "", 1, tested=True, mean_of=TASKS),
    ),
    baseline="masked LM",
    curves=published.LOSS_CURVES,
    bars=("BLiMP", "mean of tasks"),
)
