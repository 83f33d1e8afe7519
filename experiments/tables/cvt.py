"""Cross-view training beside a tagger that learns from tags alone.

palimpsest table --table=experiments/tables/cvt.py --workdir=runs/cvt
"""

from experiments.sweeps.cvt import FEW, TAGS_ALONE
from launch.reports.result_columns import task_column
from launch.reports.tables import Column, Table, labelled_rows

TABLE = Table(
    title="Cross-view training with few tags",
    row_header="training",
    note=(
        "One network, vocabulary and number of rows in a batch. Every other batch of "
        "cross-view training has no tags; with half the steps, tags alone have as "
        "many batches with tags."
    ),
    rows=labelled_rows,
    columns=(
        Column("steps", FEW, "steps", digits=0),
        Column("PFLOP", FEW, lambda t: _petaflops(t.result), digits=4),
        task_column("chunk F1", FEW, "f1"),
    ),
    baseline=TAGS_ALONE,
)


def _petaflops(result: dict) -> float:
    return result["flops_per_step"] * result["steps"] / 1e15
