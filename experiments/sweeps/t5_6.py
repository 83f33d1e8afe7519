"""T5, table 6 (Raffel et al. 2020): the corruption rate.

    python -m launch.sweep --sweep=experiments/sweeps/t5_6.py --tasks=tasks.toml \\
        --workdir=runs/t5_6

Question: Which fraction of the tokens should be hidden?

Departs: see `t5_2.py`.
"""

from experiments.sweeps import t5_2


def sweep(scale, tasks):
    return t5_2.with_budget("t5-6", scale, tasks)
