"""The size of the scale `cpu`, a quarter of an hour of a CPU core, at equal FLOPs.

    palimpsest sweep --sweep=experiments/sweeps/sizes.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/sizes
    palimpsest table --table=experiments/tables/sizes.toml --workdir=runs/sizes

Question: do 4 layers of width 192 with 12 million tokens learn more than smaller
networks with more tokens? Masked LM and LM, one run each, of a seed that no table of
results uses; rows have the FLOPs of the largest network. 40 % are hidden in training,
15 % in evaluations. The task is "POS, frozen".
"""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.sweeps.objectives import SCALES, pretraining
from launch.sweeps import benchmarks, budgets, finetuning
from launch.sweeps.tasks import Task

PROBE, SEED = "POS, frozen", 10
TOKENS = 12e6
"""Of the largest network."""
SIZES = {"4 layers of 192": (4, 192), "3 of 160": (3, 160), "2 of 128": (2, 128)}
FAMILIES = {"mlm": "masked LM", "lm": "LM"}
HEAD_WIDTH = 32


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    for family, name in FAMILIES.items():
        flops = 0.0
        for size, (layers, width) in SIZES.items():
            experiment, keys = _pretraining(family, scale, layers, width)
            if not flops:
                steps = budgets.steps_for_tokens(experiment, keys, TOKENS)
                flops = steps * budgets.step_flops(experiment, keys)
            keys |= _steps(budgets.steps_for_flops(experiment, keys, flops))
            if rate := keys.get("objective.rate"):
                trained = {"train.phases": [[1, {"objective.rate": rate}]]}
                keys |= trained | {"objective.rate": 0.15}
            start, row = (experiment, keys), f"{name}, {size}"
            yield (*start, (row, "pretraining"))
            if PROBE in tasks:
                own = benchmarks.KEYS[PROBE]
                for tuned in finetuning.tunings(start, tasks[PROBE], scale, own):
                    yield (*tuned, (row, PROBE))


def _pretraining(
    family: str, scale: str, layers: int, width: int
) -> tuple[str, dict[str, Any]]:
    experiment, keys = pretraining(family, SCALES[scale])
    keys |= {"model.layers": layers, "model.width": width}
    keys |= {"model.heads": width // HEAD_WIDTH, "model.feedforward": 4 * width}
    return experiment, keys | {
        "data.vocabulary_size": 4096,
        "train.batch": 16,
        "seed": SEED,
    }


def _steps(steps: int) -> dict[str, int]:
    tenth = {key: steps // 10 for key in ("train.eval_every", "train.checkpoint_every")}
    return {"train.steps": steps} | tenth
