"""Products of bfloat16 operands: do they cost what an objective learns?

    palimpsest sweep --sweep=experiments/sweeps/product_dtype.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/product_dtype

Question: five objectives are trained with float32 products and with those of bfloat16
operands (`model.product_dtype`), five seeds each. Is the loss the same, and what a
linear layer reads of the frozen network (the task "POS, frozen")?

Five seeds leave three objectives open, whose seeds differ more than the kinds do.
Permuted LM has 13 at quick (20 were planned), the others 20 at smoke: with 20 two equal
kinds are shown to be equivalent within a standard deviation of float32's seeds in 85 of
100 cases, with 13 in 56.
"""

from collections.abc import Iterator, Mapping

from experiments.sweeps.objectives import FAMILIES, OWN_SCALES, TUNING, pretraining
from launch.sweeps import benchmarks, finetuning
from launch.sweeps.tasks import Task

NUM_SEEDS = 5
MORE_SEEDS = {"quick": {"plm": 13}, "smoke": {"dae": 20, "electra": 20}}
"""Scale -> family -> number of seeds, where five are too few."""

DTYPES = {"float32": "dtype", "bfloat16": "bfloat16"}
PROBE = "POS, frozen"


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    size = OWN_SCALES[scale]._replace(mask_rate=0.0)  # each experiment's own
    for family in FAMILIES:
        for seed in range(MORE_SEEDS.get(scale, {}).get(family, NUM_SEEDS)):
            for row, dtype in DTYPES.items():
                experiment, keys = pretraining(family, size)
                keys |= {"model.product_dtype": dtype, "seed": seed}
                start = experiment, keys
                yield (*start, (row, family))
                if PROBE in tasks:
                    own = benchmarks.KEYS[PROBE] | TUNING.get(family, {})
                    found = finetuning.tunings(start, tasks[PROBE], scale, own)
                    for tuning in found:
                        yield (*tuning, (row, f"{family}, tags"))
