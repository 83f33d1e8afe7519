"""Wettig et al. 2023: how much to mask.

    palimpsest sweep --sweep=experiments/sweeps/wettig2023.py \\
        --tasks=tasks.toml --workdir=runs/wettig2023

Question: is 15 % the right fraction of masked tokens? All chosen tokens become masks.

Departs: RoBERTa's rows and optimizer, at its base size for scale paper, where the paper
trains large models for 23,000 steps.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    tuning = {"objective.format": "roberta"}
    own = {"tuning": tuning, "paper_mask_rate": True, "fresh": "random init"}
    return finetuning.sweep("wettig2023", scale, tasks, **own)
