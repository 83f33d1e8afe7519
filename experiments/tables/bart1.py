"""BART, table 1 (Lewis et al. 2020): eleven objectives in one code base.

python -m launch.report --table=experiments/tables/bart1.py --workdir=runs/bart1
"""

from experiments.paper_tables import published

TABLE = published.table(
    "bart1",
    title="Objectives in one code base (BART, table 1)",
    note=(
        "Pretraining is equal in text, tokens, steps, width, optimizer and number of "
        "layers, of which encoders and decoders have half each; FLOPs differ."
    ),
    baseline="Language model",
)
