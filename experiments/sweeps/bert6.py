"""BERT, table 6 (Devlin et al. 2019): the size of the network.

    palimpsest sweep --sweep=experiments/sweeps/bert6.py --tasks=tasks.toml \\
        --workdir=runs/bert6

Question: does a larger network of the same data do better on every task? Layers and
widths are fractions of the paper's at scales smoke and small; heads are the paper's.
"""

from launch.sweeps import finetuning

SIZES = {
    "L 3, H 768, A 12": (3, 768, 12),
    "L 6, H 768, A 3": (6, 768, 3),
    "L 6, H 768, A 12": (6, 768, 12),
    "L 12, H 768, A 12": (12, 768, 12),
    "L 12, H 1024, A 16": (12, 1024, 16),
    "L 24, H 1024, A 16": (24, 1024, 16),
}
DIVISORS = {"smoke": (3, 8), "quick": (3, 8), "cpu": (3, 4)}
DIVISORS |= {"small": (2, 2), "paper": (1, 1)}
"""Divisors of the number of layers and of the width, by scale."""


def sweep(scale, tasks):
    by_layers, by_width = DIVISORS[scale]

    def keys(row, base):
        layers, width, heads = SIZES[row]
        return {
            "model.layers": max(1, layers // by_layers),
            "model.width": width // by_width,
            "model.feedforward": 4 * width // by_width,
            "model.heads": heads,
        }

    return finetuning.sweep("bert6", scale, tasks, keys=keys)
