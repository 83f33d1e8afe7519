"""SpanBERT, table 6 (Joshi et al. 2020): what is masked as a whole.

python -m launch.report --table=experiments/tables/spanbert6.py --workdir=runs/spanbert6

Not here: named entities, noun phrases, and coreference.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "spanbert6",
    title="Masking schemes (SpanBERT, table 6)",
    row_header="masked",
    note="All rows predict the next sentence; everything but the unit is equal.",
    baseline="subword tokens",
)
