"""ALBERT, table 3 (Lan et al. 2020): the width of the token table.

    palimpsest sweep --sweep=experiments/sweeps/albert3.py --tasks=tasks.toml \\
        --workdir=runs/albert3

Question: How wide must the token table be, with layers that share their parameters and
without? E is a fraction of the width, as the paper's are of 768.
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    def keys(row, base):
        embedding_width = int(row.rpartition(" ")[2])
        return {"model.embedding_width": base["model.width"] * embedding_width // 768}

    return finetuning.sweep("albert3", scale, tasks, keys=keys)
