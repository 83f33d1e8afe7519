"""One pretrained network of each family on benchmarks of every kind.

    palimpsest sweep --sweep=experiments/sweeps/tasks.py --tasks=tasks.toml \\
        --workdir=runs/tasks
    palimpsest score --workdir=runs/tasks --task=blimp --data='blimp/*'
    palimpsest report --table=experiments/tables/tasks.toml --workdir=runs/tasks

Question: what does each objective bring over a network that was not pretrained? Text,
order, tokens, vocabulary, width, number of layers and optimizer are equal. Intervals of
smoke are over the items of one run; small and paper have three pretraining seeds, quick
has six.

A row is compared with its own network without pretraining: lm's reads left to right,
dae's is an encoder of two stacks, and the others have mlm's.

Departs: every task is tuned for the same number of steps, not of epochs. Each of dae's
stacks has half of the layers: of cpu's three one, and so two in all.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from experiments.sweeps.objectives import FAMILIES, FAMILY_KEYS, FRESH, SHARED, stride
from launch.sweeps import finetuning
from launch.sweeps.published import Arm
from launch.sweeps.scales import SCALES


def sweep(scale, tasks):
    chosen = finetuning.own_tasks("tasks", tasks)
    for seed in range(SCALES[scale].pretraining_seeds):
        for row in FAMILIES:
            start = family(row, scale, seed)
            yield from finetuning.with_baseline(
                row, start, chosen, scale, {}, fresh=FRESH.get(row, "")
            )


def family(
    name: str, scale: str, seed: int, more: Mapping[str, Any] = MappingProxyType({})
) -> Arm:
    """The pretraining of a family, with further keys of all."""
    shape, budget = SCALES[scale].shape, SCALES[scale].pretraining
    text = {"data.stride": stride(SCALES[scale])}
    reference = "experiments/mlm.py", SHARED | shape | budget | text

    def keys(row: str, base: Mapping[str, Any]) -> dict[str, Any]:
        own = finetuning.like(reference, base) | FAMILY_KEYS.get(row, {}) | more
        half = {"model.layers": max(1, shape["model.layers"] // 2)}
        return own | (half if row == "dae" else {})

    arm = f"experiments/{name}.py", {}
    return finetuning.pretraining(name, arm, scale, seed=seed, keys=keys, size="")
