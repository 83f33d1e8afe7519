"""SpanBERT, table 7 (Joshi et al. 2020): pairs, single sequences and boundaries.

    python -m launch.sweep --sweep=experiments/sweeps/spanbert7.py --tasks=tasks.toml \\
        --workdir=runs/spanbert7

Question: with masked spans, is one sequence better than two with next sentence
prediction, and does the span boundary objective help?
"""

from launch.sweeps import finetuning


def sweep(scale, tasks):
    return finetuning.sweep("spanbert7", scale, tasks, size="large")
