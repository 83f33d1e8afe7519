"""Weller et al. 2025, table 9: encoders made of decoders, and the reverse.

python -m launch.report --table=experiments/tables/weller2025.py --workdir=runs/x
"""

from experiments.paper_tables import published

TABLE = published.table(
    "weller2025",
    title="Cross-objective training (Weller et al. 2025, table 9)",
    row_header="pretraining",
    note="Text, network and optimizer are equal; rows made of another one have "
    "1/40 more tokens.",
    baseline="encoder",
)
