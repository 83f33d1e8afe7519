"""T5, table 4 (Raffel et al. 2020): families of objectives.

python -m launch.report --table=experiments/tables/t5_4.py --workdir=runs/t5_4

Not here: translation, summaries and SQuAD, which decoders write.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "t5-4",
    title="Families of objectives (T5, table 4)",
    row_header="objective",
    note="Pretraining is equal in text, steps and batch; lengths of targets are not.",
    baseline="prefix LM",
)
