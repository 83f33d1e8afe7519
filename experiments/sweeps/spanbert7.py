"""SpanBERT, table 7 (Joshi et al. 2020): pairs, single sequences and boundaries.

    palimpsest sweep --sweep=experiments/sweeps/spanbert7.py --tasks=tasks.toml \\
        --workdir=runs/spanbert7

Question: with masked spans, is one sequence better than two with next sentence
prediction, and does the span boundary objective help?

Departs: the paper's numbers are of 1.2 of 2.4 million steps; here the schedule ends
where the run does.
"""

from experiments.sweeps import spanbert6


def sweep(scale, tasks):
    return spanbert6.ablation("spanbert7", scale, tasks)
