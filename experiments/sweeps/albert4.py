"""ALBERT, table 4 (Lan et al. 2020): shared parameters.

    palimpsest sweep --sweep=experiments/sweeps/albert4.py --tasks=tasks.toml \\
        --workdir=runs/albert4

Question: What does sharing cost?

Departs: of the paper's rows those are here whose layers
share all parameters or none; attention or feed-forward layers alone are not shared.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    def keys(row, base):
        embedding_width = int(row.rpartition(" ")[2])
        return {"model.embedding_width": base["model.width"] * embedding_width // 768}

    return finetuning.sweep("albert4", scale, tasks, keys=keys)
