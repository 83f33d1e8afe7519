"""Five objectives by the type of their products' operands.

palimpsest table --table=experiments/tables/product_dtype.py --workdir=runs/mine
"""

from experiments.sweeps.objectives import FAMILIES
from launch.reports.tables import Column, Table, labelled_rows
from launch.sweeps.trial import Trial
from research.metrics import LOWER


def accuracy(trial: Trial) -> float:
    return 100 * trial.result["metrics"]["valid/word_accuracy"]


TABLE = Table(
    title="Products of float32 and of bfloat16 operands",
    row_header="operands",
    note=(
        "Sums, activations, parameters and the optimizer are float32. Losses in nats; "
        "tags by a linear layer on the frozen network, %."
    ),
    rows=labelled_rows,
    columns=tuple(
        column
        for family in FAMILIES
        for column in (
            Column(
                f"{family}, loss",
                family,
                "metrics.valid/loss",
                digits=4,
                tested=True,
                better=LOWER,
            ),
            Column(f"{family}, tags", f"{family}, tags", accuracy, tested=True),
        )
    ),
    baseline="float32",
)
