"""RoBERTa, table 2 (Liu et al. 2019): the format of rows, and next sentence prediction.

python -m launch.report --table=experiments/tables/roberta2.py --workdir=runs/roberta2
"""

from experiments.paper_tables import published

TABLE = published.table(
    "roberta2",
    title="Input formats (RoBERTa, table 2)",
    row_header="format",
    note="Steps and rows of a batch are equal; the text in a row is not.",
    baseline="SEGMENT-PAIR",
)
