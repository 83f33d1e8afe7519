"""T5, table 5 (Raffel et al. 2020): what replaces hidden tokens.

python -m launch.report --table=experiments/tables/t5_5.py --workdir=runs/t5_5

Not here: translation, summaries and SQuAD, which decoders write.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "t5-5",
    title="What replaces hidden tokens (T5, table 5)",
    row_header="objective",
    note="Pretraining is equal in text, steps and batch; lengths of targets are not.",
    baseline="BERT-style",
)
