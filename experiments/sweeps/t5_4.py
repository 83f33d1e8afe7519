"""T5, table 4 (Raffel et al. 2020): families of objectives.

    palimpsest sweep --sweep=experiments/sweeps/t5_4.py --tasks=tasks.toml \\
        --workdir=runs/t5_4

Question: Does a text's suffix, its masked tokens, or its shuffled tokens teach more?

Departs: see `t5_2.py`.
"""

from experiments.sweeps import t5_2


def sweep(scale, tasks):
    return t5_2.with_budget("t5-4", scale, tasks)
