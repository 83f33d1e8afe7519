"""Muon against AdamW: the loss of LM at equal steps, and at equal time.

    palimpsest sweep --sweep=experiments/sweeps/muon.py --scale=quick \\
        --workdir=runs/muon --config.data.corpus='corpus/*.txt'
    palimpsest report --table=experiments/tables/muon.py --workdir=runs/muon

Question: Muon (Jordan et al. 2024) orthogonalises the update of each matrix, which its
authors report to need fewer steps than AdamW. LM, half of the scale's steps, six seeds.
Each optimizer has the best of several rates, chosen with a seed that the table does not
show. A step of Muon takes longer: the last row is AdamW with as many more steps.

The ratio of step times is that of `palimpsest benchmark --against=optimizer.name=muon`
on an AMD EPYC.
"""

from collections.abc import Iterator

from experiments.sweeps.objectives import SCALES, pretraining

RATES = {"adamw": (1e-3, 2e-3, 4e-3), "muon": (2e-3, 4e-3, 8e-3)}
"""`optimizer.update_rms` gives Muon's updates the size of AdamW's. Muon's best one of
.001, .002 and .004 was the highest, which .008 follows."""
CHOSEN = {"adamw": 2e-3, "muon": 8e-3}
"""The best of RATES with CHOICE_SEED."""
CHOICE_SEED, SEEDS = 10, 6
STEP_RATIO = 1.45
"""The time of Muon's step by that of AdamW's."""


def sweep(scale: str) -> Iterator[tuple]:
    experiment, keys = pretraining("lm", SCALES[scale])
    steps = keys["train.steps"] // 2
    keys |= {"train.eval_every": 0}

    def run(name: str, rate: float, seed: int, steps: int = steps):
        own = {"optimizer.name": name, "optimizer.learning_rate": rate, "seed": seed}
        own |= {"train.steps": steps, "train.checkpoint_every": steps}
        return experiment, keys | own | {"optimizer.warmup_steps": steps // 20}

    for name in CHOSEN:
        for rate in RATES[name]:
            row = f"{name}, rate {rate:g}, choice"
            yield (*run(name, rate, CHOICE_SEED), (row, "pretraining"))
    for seed in range(SEEDS):
        for name, rate in CHOSEN.items():
            yield (*run(name, rate, seed), (name, "pretraining"))
        longer = round(STEP_RATIO * steps)
        yield (
            *run("adamw", CHOSEN["adamw"], seed, longer),
            ("adamw, equal time", "pretraining"),
        )
