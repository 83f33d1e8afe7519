"""Masked LM at the entropy of token frequencies, and what takes it off.

    palimpsest sweep --sweep=experiments/sweeps/plateau.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/plateau
    palimpsest table --table=experiments/tables/plateau.toml \\
        --workdir=runs/plateau

Question: of two million tokens at the scale `quick`, what do the place of the norms,
the fraction that is hidden, masks alone, the learning rate and the batch change? All
rows are evaluated with 15 % chosen, 80, 10 and 10 % of them as BERT has them, so that
they have one loss. Seeds are those that no table of results uses. The task is "POS,
frozen".
"""

from collections.abc import Iterator, Mapping

from experiments.sweeps.objectives import SCALES, pretraining
from launch.sweeps import benchmarks, finetuning
from launch.sweeps.tasks import Task

PROBE, FIRST_SEED, NUM_SEEDS = "POS, frozen", 10, 3
BASELINE = "40 %, norms before blocks"
MASKS_ALONE = {"objective.mask_fraction": 1.0, "objective.random_fraction": 0.0}


def _trained_at(rate: float) -> dict[str, object]:
    """Keys that train with this fraction chosen, and evaluate with 15 %."""
    return {"train.phases": [[1, {"objective.rate": rate}]]}


ROWS = {
    BASELINE: _trained_at(0.4),
    "40 %, norms after blocks": _trained_at(0.4) | {"model.norm_placement": "post"},
    "15 %": {},
    "15 %, norms after blocks": {"model.norm_placement": "post"},
    "40 %, masks alone": {"train.phases": [[1, {"objective.rate": 0.4} | MASKS_ALONE]]},
    "40 %, learning rate 3e-3": _trained_at(0.4) | {"optimizer.learning_rate": 3e-3},
}


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    experiment, keys = pretraining("mlm", SCALES[scale])
    keys |= {"objective.rate": 0.15, "train.log_every": 100}
    for row, changes in ROWS.items():
        for seed in range(FIRST_SEED, FIRST_SEED + NUM_SEEDS):
            start = experiment, keys | changes | {"seed": seed}
            yield (*start, (row, "pretraining"))
            if PROBE in tasks:
                own = benchmarks.KEYS[PROBE]
                for tuned in finetuning.tunings(start, tasks[PROBE], scale, own):
                    yield (*tuned, (row, PROBE))
