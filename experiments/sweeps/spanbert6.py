"""SpanBERT, table 6 (Joshi et al. 2020): what is masked as a whole.

    palimpsest sweep --sweep=experiments/sweeps/spanbert6.py --tasks=tasks.toml \\
        --workdir=runs/spanbert6

Question: is it better to mask subwords, whole words or spans of random length? All rows
are pairs of segments with next sentence prediction.

Departs: named entities and noun phrases need a parser and are left out. The paper's
numbers are of 1.2 of 2.4 million steps; here the schedule ends where the run does.
"""

from launch.sweeps import finetuning


def ablation(name, scale, tasks):
    """The sweep of one of the paper's two tables of ablations, with their steps."""

    def keys(row, base):
        return {"train.steps": 1_200_000} if scale == "paper" else {}

    return finetuning.sweep(name, scale, tasks, keys=keys, size="large")


def sweep(scale, tasks):
    return ablation("spanbert6", scale, tasks)
