"""RoBERTa, table 1 (Liu et al. 2019): static or dynamic masking.

    python -m launch.sweep --sweep=experiments/sweeps/roberta1.py --tasks=tasks.toml \\
        --workdir=runs/roberta1

Question: are ten masks of each text, used in turn, as good as a new one each time?
Rows are BERT's pairs with next sentence prediction.

Departs: a mask is seen as often as the text has epochs / 10, in the paper four times.
Within ten epochs the rows are the same runs: smoke sees 3 million tokens, so that its
text is at most a tenth of these (--config.data.corpus).
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    return finetuning.sweep("roberta1", scale, tasks)
