"""T5, table 4 (Raffel et al. 2020): families of objectives.

    python -m launch.sweep --sweep=experiments/sweeps/t5_4.py --tasks=tasks.toml \\
        --workdir=runs/t5_4

Question: Does a text's suffix, its masked tokens, or its shuffled tokens teach more?

Departs: `paper_tables/t5_text.py` says how tasks are tuned on.
"""

from experiments.paper_tables import t5_text


def sweep(scale, tasks):
    return t5_text.sweep("t5-4", scale, tasks)
