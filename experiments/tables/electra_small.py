"""ELECTRA, table 1 (Clark et al. 2020): small models at equal FLOPs.

python -m launch.report --table=experiments/tables/electra_small.py \\
    --workdir=runs/electra_small
"""

from experiments.paper_tables import published

TABLE = published.table(
    "electra-small",
    title="Small models at equal FLOPs (ELECTRA, table 1)",
    note="Pretraining is equal in shape, batch and FLOPs, not in steps.",
    baseline="BERT-small",
)
