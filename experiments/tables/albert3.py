"""ALBERT, table 3 (Lan et al. 2020): the width of the token table.

python -m launch.report --table=experiments/tables/albert3.py --workdir=runs/albert3
"""

from experiments.paper_tables import published

TABLE = published.table(
    "albert3",
    title="The width of the token table (ALBERT, table 3)",
    row_header="layers, width of the table",
    note="E is that of a network of width 768, here the same fraction of the width.",
    baseline="shared, E 128",
)
