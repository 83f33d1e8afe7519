"""CVT (Clark et al. 2018): a tagger with few tags, with and without other texts.

    palimpsest sweep --sweep=experiments/sweeps/cvt.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/cvt \\
        --config.data.mixture='{"few.conll": 1, "texts.jsonl": 1}'
    palimpsest table --table=experiments/tables/cvt.py --workdir=runs/cvt

Question: what do texts without tags bring to a tagger of few tagged texts? --tasks has
"CoNLL-2000", whose data.train is the few texts with tags (few.conll), and it may have
"CoNLL-2000, all tags", whose data.train has the tags of the others, too. All rows have
one network, one vocabulary (of the mixture) and as many rows in a batch:

- cross-view training: batches with tags and batches without alternate;
- tags alone: as many steps, each of them with tags, so twice as many with tags;
- tags alone, half the steps: as many batches with tags as cross-view training has;
- all tags: as many steps as cross-view training.

Departs: networks are smaller, budgets fixed, AdamW in place of SGD with momentum, and
there are no GloVe vectors, but at "paper" (see experiments/cvt.py).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from launch.sweeps.tasks import Task
from research.contract.errors import UserError

EXPERIMENT = "experiments/cvt.py"
FEW, ALL = "CoNLL-2000", "CoNLL-2000, all tags"
CROSS_VIEW, TAGS_ALONE, ALL_TAGS = "cross-view training", "tags alone", "all tags"
HALF = "tags alone, half the steps"

CPU = {"data.length": 40, "data.vocabulary_size": 8_000, "model.width": 64}
CPU |= {"model.cell_width": 128, "model.joined_cell_width": 64}
CPU |= {"model.character_filters": [0, 32, 32, 32], "model.character_width": 16}


class Budget(NamedTuple):
    """Seeds, steps of cross-view training, and the keys of network and batch."""

    seeds: int
    steps: int
    keys: Mapping


SHORT = CPU | {"train.batch": 16, "optimizer.learning_rate": 5e-3}
SHORT |= {"optimizer.warmup_steps": 30, "model.init": "xlm", "model.table_range": 0.5}
SHORT |= {"model.dropout": 0.2, "objective.unlabelled_dropout": 0.1}
"""Dense layers by fan-in: with normal values of 0.02 a tagger stays at the frequencies
of tags for twice as many steps."""
BUDGETS = {
    "smoke": Budget(3, 100, SHORT),
    "quick": Budget(5, 500, SHORT),
    "cpu": Budget(5, 5_000, SHORT),
    "small": Budget(5, 20_000, {"train.batch": 64}),
    "paper": Budget(5, 200_000, {}),
}


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    if FEW not in tasks:
        raise UserError(f"--tasks has no task {FEW}, of the few texts with tags")
    budget = BUDGETS[scale]
    experiment = f"{EXPERIMENT}:base" if scale == "paper" else EXPERIMENT
    others = []
    for seed in range(budget.seeds):
        shared = {**budget.keys, "train.eval_every": 0, "seed": seed}
        if scale != "paper":
            shared["train.log_every"] = max(10, budget.steps // 20)
        few = shared | _files(tasks[FEW]) | {"train.steps": budget.steps}
        both = {key: value for key, value in few.items() if key != "data.train"}
        both["data.held_out"] = 0.0
        yield experiment, both, (CROSS_VIEW, FEW)
        alone = few | {"objective.consistency": 0.0, "data.mixture": {}}
        alone["data.vocabulary"] = experiment, both
        yield experiment, alone, (TAGS_ALONE, FEW)
        half = {"train.steps": budget.steps // 2}
        others.append((experiment, alone | half, (HALF, FEW)))
        if ALL in tasks:
            others.append((experiment, alone | _files(tasks[ALL]), (ALL_TAGS, FEW)))
    yield from others


def _files(task: Task) -> dict:
    return {k: v for k, v in task.keys.items() if k.startswith("data.")}
