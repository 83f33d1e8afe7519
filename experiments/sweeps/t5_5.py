"""T5, table 5 (Raffel et al. 2020): what replaces hidden tokens.

    python -m launch.sweep --sweep=experiments/sweeps/t5_5.py --tasks=tasks.toml \\
        --workdir=runs/t5_5

Question: What should the encoder read for hidden tokens, and must the decoder write all
of the text?

Departs: `paper_tables/t5_text.py` says how tasks are tuned on.
"""

from experiments.paper_tables import t5_text


def sweep(scale, tasks):
    return t5_text.sweep("t5-5", scale, tasks)
