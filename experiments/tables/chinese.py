"""Whole words and ERNIE's entities against no pretraining, on Chinese tasks.

python -m launch.report --table=experiments/tables/chinese.py --workdir=runs/chinese
"""

from experiments.paper_tables import published
from experiments.paper_tables.finetuning import NO_PRETRAINING
from experiments.sweeps.chinese import METRICS

TABLE = published.benchmark_table(
    METRICS,
    title="Chinese objectives on Chinese tasks",
    note="Text, vocabulary, width, number of layers and optimizer are equal; "
    "masks, and inputs beside the tokens, are each system's own.",
    baseline=NO_PRETRAINING,
)
