"""T5, table 7 (Raffel et al. 2020): the length of hidden spans.

    palimpsest sweep --sweep=experiments/sweeps/t5_7.py --tasks=tasks.toml \\
        --workdir=runs/t5_7

Question: How long should hidden spans be? i.i.d.: each token by itself.

Departs: see `t5_2.py`.
"""

from experiments.sweeps import t5_2


def sweep(scale, tasks):
    return t5_2.with_budget("t5-7", scale, tasks)
