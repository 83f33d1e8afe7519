"""XLM-R on XNLI, trained in English.

python -m launch.report --table=experiments/tables/xnli.py --workdir=runs/xnli
"""

from experiments.paper_tables import published
from experiments.paper_tables.finetuning import NO_PRETRAINING
from experiments.sweeps.xnli import METRICS

TABLE = published.benchmark_table(
    METRICS,
    title="XNLI, trained in English",
    note="The training set is English; each column is another language of the "
    "evaluation.",
    baseline=NO_PRETRAINING,
)
