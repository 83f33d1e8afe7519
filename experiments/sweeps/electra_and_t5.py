"""ELECTRA and T5 after few tokens: what makes their networks worse than random ones.

    palimpsest sweep --sweep=experiments/sweeps/electra_and_t5.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/electra_and_t5
    palimpsest table --table=experiments/tables/electra_and_t5.toml \\
        --workdir=runs/electra_and_t5

Question: which single change brings a frozen network of ELECTRA or T5 above the same
one without pretraining? Adam gives a stack that has hardly a gradient steps as large as
any other; so a smaller learning rate may harm it less. ELECTRA's detector may outweigh
what its generator teaches the shared embeddings: less of its loss (DeBERTaV3 has 10),
embeddings that it does not move (gdes), or all parameters shared (ELECTRA, section
3.2). T5's decoder may do without the encoder: longer spans, or the whole text as
target. Or more is hidden. The task is "POS, frozen"; the baselines are points of
`learning_curves.py`.
"""

from collections.abc import Iterator, Mapping

from experiments.sweeps.learning_curves import SEEDS, point
from experiments.sweeps.objectives import FRESH
from launch.sweeps import finetuning
from launch.sweeps.tasks import Task

SLOWER = {"optimizer.learning_rate": 3e-4}
SHARED = {"objective.generator_size": 1.0, "objective.tie": "all"}
ROWS = {
    "ELECTRA": ("electra", {}),
    "ELECTRA, learning rate 3e-4": ("electra", SLOWER),
    "ELECTRA, weight 10": ("electra", {"objective.coef": 10.0}),
    "ELECTRA, gdes": ("electra", {"objective.tie": "gdes"}),
    "ELECTRA, all shared": ("electra", SHARED),
    "T5": ("dae", {}),
    "T5, learning rate 3e-4": ("dae", SLOWER),
    "T5, spans of 10": ("dae", {"objective.mean_span": 10.0}),
    "T5, whole text": ("dae", {"objective.target": "whole"}),
    "ELECTRA, 40 % chosen": ("electra", {"objective.rate": 0.4}),
    "T5, 40 % hidden": ("dae", {"objective.rate": 0.4}),
}


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    chosen = {name: task for name, task in tasks.items() if name == "POS, frozen"}
    for row, (name, changes) in ROWS.items():
        for seed in range(SEEDS):
            experiment, keys = point(name, scale, seed, share=1)
            fresh = "" if changes else FRESH.get(name, FRESH["mlm"])
            yield from finetuning.with_baseline(
                row, (experiment, keys | changes), chosen, scale, {}, fresh=fresh
            )
