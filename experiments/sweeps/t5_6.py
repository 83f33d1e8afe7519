"""T5, table 6 (Raffel et al. 2020): the corruption rate.

    palimpsest sweep --sweep=experiments/sweeps/t5_6.py --tasks=tasks.toml \\
        --workdir=runs/t5_6

Question: Which fraction of the tokens should be hidden?

Departs: see `t5_2.py`. At paper all rows have 160 sentinels in place of 100, beside
the same 32,000 pieces: half of 512 tokens has up to 152 hidden spans.
"""

from experiments.sweeps import t5_2

SENTINELS = {"data.sentinels": 160, "data.vocabulary_size": 32_160}


def sweep(scale, tasks):
    more = SENTINELS if scale == "paper" else {}
    return t5_2.with_budget("t5-6", scale, tasks, lambda row, base: more)
