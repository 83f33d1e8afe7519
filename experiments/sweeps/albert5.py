"""ALBERT, table 5 (Lan et al. 2020): the loss of pairs of segments.

    palimpsest sweep --sweep=experiments/sweeps/albert5.py --tasks=tasks.toml \\
        --workdir=runs/albert5

Question: is it better to predict whether two segments are in order (SOP), or whether
they are of one document (NSP), or neither?
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    return finetuning.sweep("albert5", scale, tasks)
