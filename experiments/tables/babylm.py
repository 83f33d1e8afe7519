"""BabyLM: objectives on little text, at most ten epochs.

python -m launch.report --table=experiments/tables/babylm.py --workdir=runs/babylm
"""

from experiments.paper_tables import published
from experiments.paper_tables.scored import BLIMP
from experiments.sweeps.babylm import TASKS
from launch.reports.tables import Column, Table, labelled_rows
from launch.sweeps.published import read_published

YEARS = ("babylm2023", "babylm2024", "babylm2025")
"""Files of experiments/claims, whose rows are this table's."""


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
        BLIMP,
        *map(task_column, TASKS),
        Column("mean of tasks", "", "", 1, tested=True, mean_of=TASKS),
    ),
    baseline="masked LM",
    claims=tuple(
        claim
        for year in YEARS
        for claim in published.claimed(read_published(year), ("BLiMP",))
    ),
    curves=published.LOSS_CURVES,
    bars=("BLiMP", "mean of tasks"),
)
