"""T5, table 6 (Raffel et al. 2020): the corruption rate.

    python -m launch.sweep --sweep=experiments/sweeps/t5_6.py --tasks=tasks.toml \\
        --workdir=runs/t5_6

Question: Which fraction of the tokens should be hidden?

Departs: `paper_tables/t5_text.py` says how tasks are tuned on.
"""

from experiments.paper_tables import t5_text


def sweep(scale, tasks):
    return t5_text.sweep("t5-6", scale, tasks)
