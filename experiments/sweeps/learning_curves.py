"""From how many tokens on does each objective help?

    palimpsest sweep --sweep=experiments/sweeps/learning_curves.py --scale=cpu \\
        --tasks=tasks.toml --workdir=runs/curves --config.data.corpus='corpus/*.txt'
    palimpsest score --workdir=runs/curves --task=blimp --data='blimp/*'
    palimpsest report --table=experiments/tables/learning_curves.toml \\
        --workdir=runs/curves

Question: at which budget is each family's network above the same network without
pretraining, and above the other families? Each point is a run of its own, whose rate
falls to 0 at its budget; the smaller budgets of all families come first, so that a
sweep that is stopped has whole columns.

Network, text, order, vocabulary and optimizer are those of `tasks.py`.
"""

from collections.abc import Iterator, Mapping

from experiments.sweeps.objectives import FAMILIES, FRESH
from experiments.sweeps.tasks import family
from launch.sweeps import finetuning
from launch.sweeps.published import Arm
from launch.sweeps.scales import SCALES
from launch.sweeps.tasks import Task

BUDGETS = (0.1, 0.25, 0.5, 1, 2.5, 5)
"""Multiples of the scale's tokens: at cpu 2 to 102 million, at quick .2 to 10."""
SEEDS = 3


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    chosen = finetuning.own_tasks("learning_curves", tasks)
    shape, budget = SCALES[scale].shape, SCALES[scale].pretraining
    for share in BUDGETS:
        for seed in range(SEEDS):
            for name in FAMILIES:
                fresh = FRESH.get(name, "") if share == BUDGETS[0] else ""
                start = point(name, scale, seed, share)
                rows = start[1]["train.steps"] * budget["train.batch"]
                tokens = rows * shape["data.length"]
                row = f"{name}, {round(tokens / 1e6, 1):g} M"
                yield from finetuning.with_baseline(
                    row, start, chosen, scale, {}, fresh=fresh
                )


def point(name: str, scale: str, seed: int, share: float) -> Arm:
    """The pretraining of a family on a multiple of the scale's tokens."""
    steps = round(share * SCALES[scale].pretraining["train.steps"])
    length = {"train.steps": steps, "optimizer.warmup_steps": steps // 20}
    length |= {"train.eval_every": 0, "train.checkpoint_every": steps}
    return family(name, scale, seed, length)
