"""ELECTRA, table 5 (Clark et al. 2020): stepping stones from BERT to ELECTRA.

python -m launch.report --table=experiments/tables/electra5.py --workdir=runs/electra5
"""

from experiments.paper_tables import published

TABLE = published.table(
    "electra5",
    title="From BERT to ELECTRA (ELECTRA, table 5)",
    note="Pretraining is equal in text, steps and batch; FLOPs differ.",
    baseline="BERT",
)
