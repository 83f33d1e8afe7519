"""BERT, table 6 (Devlin et al. 2019): the size of the network.

python -m launch.report --table=experiments/tables/bert6.py --workdir=runs/bert6
"""

from experiments.paper_tables import published

TABLE = published.table(
    "bert6",
    title="The size of the network (BERT, table 6)",
    note="Steps, batch and text are equal; parameters and FLOPs are not.",
    baseline="L 12, H 768, A 12",
    more=(published.PERPLEXITY,),
)
