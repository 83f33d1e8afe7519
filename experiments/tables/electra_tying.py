"""ELECTRA, section 3.2 (Clark et al. 2020): what generator and discriminator share.

python -m launch.report --table=experiments/tables/electra_tying.py --workdir=runs/tying
"""

from experiments.paper_tables import published

TABLE = published.table(
    "electra-tying",
    title="Weight tying (ELECTRA, section 3.2)",
    row_header="shared",
    note="The generator has the discriminator's size; all else is equal.",
    baseline="none",
)
