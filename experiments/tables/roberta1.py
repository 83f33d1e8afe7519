"""RoBERTa, table 1 (Liu et al. 2019): static or dynamic masking.

python -m launch.report --table=experiments/tables/roberta1.py --workdir=runs/roberta1
"""

from experiments.paper_tables import published

TABLE = published.table(
    "roberta1",
    title="Static and dynamic masking (RoBERTa, table 1)",
    row_header="masking",
    note="Everything but the masks is equal.",
    baseline="static",
)
