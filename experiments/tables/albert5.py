"""ALBERT, table 5 (Lan et al. 2020): the loss of pairs of segments.

python -m launch.report --table=experiments/tables/albert5.py --workdir=runs/albert5

Not here: the accuracies of the losses themselves. Departs: the average is of F1 alone
where a task is SQuAD; the paper's averages F1 and exact match first.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "albert5",
    title="Losses of pairs of segments (ALBERT, table 5)",
    row_header="loss",
    note="All read two segments; everything but their loss is equal.",
    baseline="none",
)
