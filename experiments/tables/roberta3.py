"""RoBERTa, table 3 (Liu et al. 2019): the size of the batch.

python -m launch.report --table=experiments/tables/roberta3.py --workdir=runs/roberta3
"""

from experiments.paper_tables import published

TABLE = published.table(
    "roberta3",
    title="Batch sizes (RoBERTa, table 3)",
    row_header="batch, epochs",
    note="Rows of equally many epochs are equal in text; steps are fewer by the batch.",
    baseline="256, 32 epochs",
    more=(published.PERPLEXITY,),
)
