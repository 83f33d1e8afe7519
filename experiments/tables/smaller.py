"""A published encoder made smaller: what is left of its quality.

palimpsest table --table=experiments/tables/smaller.py --workdir=runs/smaller
"""

from experiments.sweeps.smaller import PLAIN, TASKS
from launch.reports.result_columns import task_column
from launch.reports.tables import Column, Table, labelled_rows

TABLE = Table(
    title="A published encoder made smaller",
    row_header="network",
    note=(
        "Tuned on each task alone; the teacher of a seed is that of its row. PFLOP are "
        "those of the last stage of a run on SST-2, the teacher's forward passes "
        "among them."
    ),
    rows=labelled_rows,
    columns=(
        Column("parameters, M", "SST-2", lambda t: t.result["parameters"] / 1e6),
        Column(
            "PFLOP",
            "SST-2",
            lambda t: t.result["flops_per_step"] * t.result["steps"] / 1e15,
            digits=3,
        ),
        *(task_column(task, task, metric) for task, metric in TASKS.items()),
    ),
    baseline=PLAIN,
)
