"""BERT, table 8 (Devlin et al. 2019): what a chosen token becomes.

    python -m launch.sweep --sweep=experiments/sweeps/bert8.py --tasks=tasks.toml \\
        --workdir=runs/bert8

Question: of the 15 % chosen tokens, which fraction should become the mask token, stay,
or become a random token? Rows are named MASK SAME RND, in per cent.

Departs: the column of features without fine-tuning is left out.
"""

from experiments.paper_tables import finetuning


def sweep(scale, tasks):
    return finetuning.sweep("bert8", scale, tasks)
