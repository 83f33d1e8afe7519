"""ELECTRA, section 3.2 (Clark et al. 2020): what generator and discriminator share.

    palimpsest sweep --sweep=experiments/sweeps/electra_tying.py \\
        --tasks=tasks.toml --workdir=runs/tying

Question: with a generator of the discriminator's size, is it better to share nothing,
the embeddings, or all weights?
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    def keys(row, base):
        return {"train.steps": 500_000} if scale == "paper" else {}

    return finetuning.sweep("electra-tying", scale, tasks, keys=keys)
