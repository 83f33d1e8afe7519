"""T5, table 7 (Raffel et al. 2020): the length of hidden spans.

python -m launch.report --table=experiments/tables/t5_7.py --workdir=runs/t5_7

Not here: translation, summaries and SQuAD, which decoders write.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "t5-7",
    title="The length of hidden spans (T5, table 7)",
    row_header="span",
    note="Pretraining is equal in text, steps and batch; lengths of targets are not.",
    baseline="i.i.d.",
)
