"""RoBERTa, table 3 (Liu et al. 2019): the size of the batch.

    palimpsest sweep --sweep=experiments/sweeps/roberta3.py --tasks=tasks.toml \\
        --workdir=runs/roberta3

Question: at equal epochs, are fewer steps with larger batches better? Batches and steps
are multiples and fractions of the first row's.

Departs: the paper tuned a learning rate for each batch; at smoke and small the rates
are not tuned, and grow with the root of the batch.
"""

from launch.sweeps import finetuning

ROWS = {  # batch / the first row's, epochs / the first row's, rate in the paper
    "256, 32 epochs": (1, 1, 1e-4),
    "2K, 32 epochs": (8, 1, 7e-4),
    "2K, 64 epochs": (8, 2, 7e-4),
    "2K, 128 epochs": (8, 4, 7e-4),
    "8K, 32 epochs": (32, 1, 1e-3),
    "8K, 64 epochs": (32, 2, 1e-3),
    "8K, 128 epochs": (32, 4, 1e-3),
}


def sweep(scale, tasks):
    def keys(row, base):
        factor, epochs, rate = ROWS[row]
        batch, steps = base["train.batch"], base["train.steps"]
        if scale == "paper":
            batch, steps = 256, 1_000_000
        else:
            rate = base["optimizer.learning_rate"] * (factor / 32) ** 0.5
        steps = steps * epochs // factor
        return {
            "train.batch": factor * batch,
            "train.steps": steps,
            "train.eval_every": max(1, steps // 10),
            "optimizer.learning_rate": rate,
            "optimizer.warmup_steps": max(1, steps // 20),
        }

    tuning = {"objective.format": "roberta"}
    return finetuning.sweep("roberta3", scale, tasks, keys=keys, tuning=tuning)
