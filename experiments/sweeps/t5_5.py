"""T5, table 5 (Raffel et al. 2020): what replaces hidden tokens.

    palimpsest sweep --sweep=experiments/sweeps/t5_5.py --tasks=tasks.toml \\
        --workdir=runs/t5_5

Question: What should the encoder read for hidden tokens, and must the decoder write all
of the text?

Departs: see `t5_2.py`.
"""

from experiments.sweeps import t5_2


def sweep(scale, tasks):
    return t5_2.with_budget("t5-5", scale, tasks)
