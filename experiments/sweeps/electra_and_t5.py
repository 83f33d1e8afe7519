"""ELECTRA and T5 after few tokens: what a linear layer reads of the frozen network.

    palimpsest sweep --sweep=experiments/sweeps/electra_and_t5.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/electra_and_t5
    palimpsest table --table=experiments/tables/electra_and_t5.toml \\
        --workdir=runs/electra_and_t5

Question: what brings their networks above the same ones without pretraining: another
rate, a generator as wide as the detector, or more tokens? One run each, of a seed that
no table of results uses (docs/results.md). The task is "POS, frozen".
"""

from collections.abc import Iterator, Mapping

from experiments.sweeps.objectives import SCALES, TUNING, pretraining
from launch.sweeps import benchmarks, finetuning
from launch.sweeps.tasks import Task

PROBE, SEED = "POS, frozen", 7
LONG = {"train.steps": 12_000}
MORE, WIDE = {"objective.rate": 0.4}, {"objective.generator_size": 1.0}
ROWS = {
    "ELECTRA, 15 %": ("electra", {}),
    "ELECTRA, 15 %, longer": ("electra", LONG),
    "ELECTRA, 40 %": ("electra", MORE),
    "ELECTRA, 40 %, wide generator": ("electra", MORE | WIDE),
    "ELECTRA, 40 %, longer": ("electra", MORE | LONG),
    "T5, 15 %": ("dae", {}),
    "T5, 40 %": ("dae", MORE),
}
FRESH = {
    "electra": "ELECTRA, no pretraining",
    "dae": "T5, no pretraining",
}


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    size = SCALES[scale]._replace(mask_rate=0.0)  # each row has its own rate
    fresh = dict(FRESH)
    for row, (family, changes) in ROWS.items():
        experiment, keys = pretraining(family, size)
        start = experiment, keys | changes | {"seed": SEED}
        yield (*start, (row, "pretraining"))
        if PROBE not in tasks:
            continue
        own = benchmarks.KEYS[PROBE] | TUNING.get(family, {})
        for experiment, tuned in finetuning.tunings(start, tasks[PROBE], scale, own):
            yield experiment, tuned, (row, PROBE)
            if name := fresh.pop(family, ""):
                none = {k: v for k, v in tuned.items() if k != "train.init_from"}
                yield experiment, none, (name, PROBE)
