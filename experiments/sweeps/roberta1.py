"""RoBERTa, table 1 (Liu et al. 2019): static or dynamic masking.

    palimpsest sweep --sweep=experiments/sweeps/roberta1.py --tasks=tasks.toml \\
        --workdir=runs/roberta1

Question: are ten masks of each text, used in turn, as good as a new one each time?
Rows are BERT's pairs with next sentence prediction.

Departs: a mask is seen as often as the text has epochs / 10, in the paper four times.
Within ten epochs the rows are the same runs: smoke sees 3 million tokens and quick 2
million, so that the text (--config.data.corpus) is at most a tenth of these, and a
fortieth (25,000 words) for the paper's four times.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    def keys(row, base):  # RoBERTa trains with full rows alone, BERT with short ones
        return {"train.phases": []} if scale == "paper" else {}

    return finetuning.sweep("roberta1", scale, tasks, keys=keys)
