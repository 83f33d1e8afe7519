"""The objectives of since_2020.py with 2.5 times its FLOPs.

    palimpsest sweep --sweep=experiments/sweeps/since_2020_long.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/since_long \\
        --config.data.corpus='wiki-en/train-*.jsonl.gz'
    palimpsest table --table=experiments/tables/since_2020.toml \\
        --workdir=runs/since_long

Question: does the order of the objectives stay the same with the computation that LM
takes for five times the scale's steps, at quick for 10.2 million tokens?
"""

import functools

from experiments.sweeps import since_2020

sweep = functools.partial(since_2020.sweep, multiple=5)
