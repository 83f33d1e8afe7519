"""T5, table 7 (Raffel et al. 2020): the length of hidden spans.

    python -m launch.sweep --sweep=experiments/sweeps/t5_7.py --tasks=tasks.toml \\
        --workdir=runs/t5_7

Question: How long should hidden spans be? i.i.d.: each token by itself.

Departs: `paper_tables/t5_text.py` says how tasks are tuned on.
"""

from experiments.paper_tables import t5_text


def sweep(scale, tasks):
    return t5_text.sweep("t5-7", scale, tasks)
