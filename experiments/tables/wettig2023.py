"""Wettig et al. 2023: how much to mask.

python -m launch.report --table=experiments/tables/wettig2023.py --workdir=runs/wettig
"""

from experiments.paper_tables import published

TABLE = published.table(
    "wettig2023",
    title="Masking rates (Wettig et al. 2023)",
    row_header="masked",
    note="Everything but the fraction of masked tokens is equal.",
    baseline="15 %",
)
