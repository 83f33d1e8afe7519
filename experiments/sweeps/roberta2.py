"""RoBERTa, table 2 (Liu et al. 2019): the format of rows, and next sentence prediction.

    palimpsest sweep --sweep=experiments/sweeps/roberta2.py --tasks=tasks.toml \\
        --workdir=runs/roberta2

Question: should a row be a pair of segments or of sentences, or whole sentences across
documents, or of one document alone?

Departs: batches have equally many rows, so that rows of sentence pairs and of single
documents have fewer tokens; the paper makes their batches larger. Rows of pairs have no
token types, as RoBERTa's network has none.
"""

from launch.sweeps import finetuning

BUDGET = {"train.steps": 1_000_000, "train.batch": 256}
BUDGET |= {"optimizer.learning_rate": 1e-4, "optimizer.warmup_steps": 10_000}


def sweep(scale, tasks):
    def keys(row, base):
        return BUDGET if scale == "paper" else {}

    tuning = {"objective.format": "roberta"}
    return finetuning.sweep("roberta2", scale, tasks, keys=keys, tuning=tuning)
