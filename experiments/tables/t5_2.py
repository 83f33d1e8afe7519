"""T5, table 2 (Raffel et al. 2020): architectures by objectives.

python -m launch.report --table=experiments/tables/t5_2.py --workdir=runs/t5_2

Not here: translation, summaries and SQuAD, which decoders write.
"""

from experiments.paper_tables import published

TABLE = published.table(
    "t5-2",
    title="Architectures by objectives (T5, table 2)",
    row_header="architecture, objective",
    note="Stacks have equally many layers; an encoder with a decoder has two of them.",
    baseline="decoder, LM",
)
