"""Gisserot-Boukhlef et al. 2025: causal language modelling first, then masked.

python -m launch.report --table=experiments/tables/gisserot2025.py --workdir=runs/x
"""

from experiments.paper_tables import published

TABLE = published.table(
    "gisserot2025",
    title="Causal, then masked language modelling (Gisserot-Boukhlef et al. 2025)",
    row_header="pretraining",
    note="Tokens, text, network and optimizer are equal.",
    baseline="MLM 42K",
)
