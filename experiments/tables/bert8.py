"""BERT, table 8 (Devlin et al. 2019): what a chosen token becomes.

python -m launch.report --table=experiments/tables/bert8.py --workdir=runs/bert8
"""

from experiments.paper_tables import published

TABLE = published.table(
    "bert8",
    title="Masking procedures (BERT, table 8)",
    row_header="MASK SAME RND, %",
    note="Everything but what a chosen token becomes is equal.",
    baseline="0 0 100",
)
