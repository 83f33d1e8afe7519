"""T5, table 6 (Raffel et al. 2020): the corruption rate.

python -m launch.report --table=experiments/tables/t5_6.py --workdir=runs/t5_6

Not here: translation, summaries and SQuAD, which decoders write.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "t5-6",
    title="The corruption rate (T5, table 6)",
    row_header="hidden",
    note="Pretraining is equal in text, steps and batch; lengths of targets are not.",
    baseline="15 %",
)
