"""BERT, table 5 (Devlin et al. 2019): next sentence prediction, and both directions.

python -m launch.report --table=experiments/tables/bert5.py --workdir=runs/bert5
"""

from experiments.paper_tables import published

TABLE = published.table(
    "bert5",
    title="Ablation of BERT's objectives (BERT, table 5)",
    note="“No NSP” reads two segments and has no loss for them.",
    baseline="No NSP",
)
