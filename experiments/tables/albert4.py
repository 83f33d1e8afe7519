"""ALBERT, table 4 (Lan et al. 2020): shared parameters.

python -m launch.report --table=experiments/tables/albert4.py --workdir=runs/albert4

Not here: rows that share the parameters of attention or of feed-forward layers alone.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "albert4",
    title="Shared parameters (ALBERT, table 4)",
    row_header="layers, width of the table",
    note="E is that of a network of width 768, here the same fraction of the width.",
    baseline="not shared, E 768",
)
