"""Features that others have learned, below one BiLSTM.

palimpsest table --table=experiments/tables/features.py --workdir=runs/features
"""

from experiments.sweeps.features import DRAWN, TASKS
from launch.reports.result_columns import task_column
from launch.reports.tables import Table, labelled_rows

TABLE = Table(
    title="Features that are not tuned",
    row_header="features",
    note="A BiLSTM of one size, budget and vocabulary reads them.",
    rows=labelled_rows,
    columns=tuple(task_column(task, task, metric) for task, metric in TASKS.items()),
    baseline=DRAWN,
)
