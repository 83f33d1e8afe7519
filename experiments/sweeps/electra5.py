"""ELECTRA, table 5 (Clark et al. 2020): stepping stones from BERT to ELECTRA.

    palimpsest sweep --sweep=experiments/sweeps/electra5.py --tasks=tasks.toml \\
        --workdir=runs/electra5

Question: is ELECTRA better because it learns from all tokens, or because no mask tokens
are in its input? "ELECTRA 15 %" scores the chosen positions alone, "Replace MLM" puts
the generator's samples where masks would be, "All-tokens MLM" predicts every token.

Departs: rows are equal in steps, not in compute, as the columns show; "BERT" is BERT
without next sentence prediction, whose rows are still pairs, and half of them of two
documents. All else is ELECTRA's.
"""

from launch.sweeps import finetuning
from launch.sweeps.published import read_published


def sweep(scale, tasks):
    arm = read_published("electra5").arms["ELECTRA"]
    electra = finetuning.pretraining("", arm, scale)

    def keys(row, base):
        return finetuning.like(electra, base) if row == "BERT" else {}

    return finetuning.sweep("electra5", scale, tasks, keys=keys, paper_mask_rate=True)
