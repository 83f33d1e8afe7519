"""ELECTRA, table 5 (Clark et al. 2020): stepping stones from BERT to ELECTRA.

    python -m launch.sweep --sweep=experiments/sweeps/electra5.py --tasks=tasks.toml \\
        --workdir=runs/electra5

Question: is ELECTRA better because it learns from all tokens, or because no mask tokens
are in its input? "ELECTRA 15 %" scores the chosen positions alone, "Replace MLM" puts
the generator's samples where masks would be, "All-tokens MLM" predicts every token.

Departs: at smoke and small rows are equal in steps, not in compute, as the columns
show; "BERT" is BERT without next sentence prediction.
"""

from experiments.paper_tables import finetuning


def sweep(scale, tasks):
    return finetuning.sweep("electra5", scale, tasks)
