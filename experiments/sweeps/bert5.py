"""BERT, table 5 (Devlin et al. 2019): next sentence prediction, and both directions.

    palimpsest sweep --sweep=experiments/sweeps/bert5.py --tasks=tasks.toml \\
        --workdir=runs/bert5

Question: what do the sentence loss and attention to both sides bring? "No NSP" still
reads two segments, as in the paper: compare it with the row above for the loss, and
with the row below for the direction. The left-to-right model keeps its mask in
fine-tuning.

Departs: the left-to-right model reads contiguous text, not pairs. The row with a BiLSTM
is left out.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    bert = finetuning.pretraining("", ("experiments/bert.py", {}), scale)

    def keys(row, base):
        return finetuning.like(bert, base) if row == "LTR & No NSP" else {}

    return finetuning.sweep("bert5", scale, tasks, keys=keys)
