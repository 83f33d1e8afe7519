"""Products of bfloat16 operands: do they cost what an objective learns?

    python -m launch.sweep --sweep=experiments/sweeps/product_dtype.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/product_dtype

Question: five objectives are trained with float32 products and with those of bfloat16
operands (`model.product_dtype`), five seeds each. Is the loss the same, and what a
linear layer reads of the frozen network (the task "POS, frozen")?
"""

from collections.abc import Iterator, Mapping

from experiments.sweeps.objectives import FAMILIES, SCALES, TUNING, pretraining
from launch.sweeps import benchmarks, finetuning
from launch.sweeps.tasks import Task

NUM_SEEDS = 5
DTYPES = {"float32": "dtype", "bfloat16": "bfloat16"}
PROBE = "POS, frozen"


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    size = SCALES[scale]._replace(mask_rate=0.0)  # each experiment's own
    for family in FAMILIES:
        for seed in range(NUM_SEEDS):
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
