"""SpanBERT, table 7 (Joshi et al. 2020): pairs, single sequences and boundaries.

python -m launch.report --table=experiments/tables/spanbert7.py --workdir=runs/spanbert7

Not here: coreference.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "spanbert7",
    title="Auxiliary objectives (SpanBERT, table 7)",
    note="All rows mask spans.",
    baseline="1seq",
)
