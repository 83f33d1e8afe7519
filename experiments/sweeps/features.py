"""What a tagger and a classifier gain from features that others have learned.

    python -m launch.sweep --sweep=experiments/sweeps/features.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/features --config.data.normalizer=lower \\
        --config.data.corpus='words/*.jsonl'

Question (Peters et al. 2018, table 1): does it help that the vector of a word depends
on its text? In each row a BiLSTM of WIDTH units a direction reads features that it does
not change, and its output a linear layer:

- vectors of words that are drawn; in the next row the task learns them;
- GloVe's, which each task of --tasks names (objective.vectors and .vectors_width);
- all layers of an ELMo, mixed: of one that has read the corpus, and of one as drawn.

The vocabulary of all is that of the corpus, whose texts have words and marks apart,
as those of the tasks have them.

Departs: features are alone, where the papers have them beside a task's own vectors;
ELMo is small, and reads the corpus for minutes. As there, it is trained once: seeds are
those of tasks. The cell of the BiLSTM upon ELMo is
Flax's, in the other rows that of model.network=lstm: they differ in initial values.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from launch.sweeps import finetuning
from launch.sweeps.finetuning import INIT_FROM
from launch.sweeps.tasks import Task

WIDTH = 128
ELMO = {
    "model.width": WIDTH,
    "model.cell_width": 256,
    "model.character_filters": [16, 32, 64],
    "objective.sampled_words": 512,
}
VOCABULARY = {"data.vocabulary_size": 24_000, "data.length": 64}
VECTORS = ("objective.vectors", "objective.vectors_width")
CLASSIFIER = "sequence_classification"


class Budget(NamedTuple):
    """Seeds of a task, and the steps of ELMo and of a task."""

    seeds: int
    elmo_steps: int
    steps: int


BUDGETS = {"smoke": Budget(2, 100, 50), "quick": Budget(5, 1600, 300)}
FULL = Budget(5, 100_000, 2_000)


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    budget = BUDGETS.get(scale, FULL)
    chosen = finetuning.own_tasks("features", tasks)
    keys = ELMO | VOCABULARY | _steps(budget.elmo_steps) | {"seed": 0}
    elmo = "experiments/elmo.py:small", keys
    yield *elmo, ("ELMo", "pretraining")
    for seed in range(budget.seeds):
        for name, task in chosen.items():
            shared = _task(task, budget) | {"data.vocabulary": elmo, "seed": seed}
            for row, own in _rows(task, elmo).items():
                yield finetuning.EXPERIMENT, own | shared, (row, name)


def _task(task: Task, budget: Budget) -> dict[str, Any]:
    """Keys of all rows on a task."""
    keys = _steps(budget.steps) | {"model.dropout": 0.0}
    keys |= {"optimizer.learning_rate": 2e-3}
    keys |= {"optimizer.warmup_steps": max(1, budget.steps // 16)}
    if task.keys.get("objective.name", CLASSIFIER) == CLASSIFIER:
        keys |= {"objective.head": "linear", "objective.pool": "max"}
    return keys | {k: v for k, v in task.keys.items() if k not in VECTORS}


def _steps(steps: int) -> dict[str, Any]:
    keys = {"train.steps": steps, "train.log_every": max(10, steps // 20)}
    return keys | {
        "train.batch": 16,
        "train.eval_every": 0,
        "train.checkpoint_every": 0,
    }


def _rows(task: Task, elmo: tuple) -> dict[str, dict[str, Any]]:
    """Row -> its own keys on a task."""
    lstm = {"model.network": "lstm", "model.layers": 1, "model.width": WIDTH}
    given = {key: task.keys[key] for key in VECTORS if key in task.keys}
    rows = {
        "vectors as drawn": lstm | {"optimizer.frozen": "token"},
        "vectors that the task learns": lstm,
    }
    if given:
        rows["GloVe"] = lstm | given | {"optimizer.frozen": "token"}
    of_elmo = finetuning.network_keys(elmo) | {
        "optimizer.frozen": "network",
        "objective.features": "mix",
        "objective.lstm_layers": 1,
    }
    rows["ELMo as drawn"] = of_elmo
    rows["ELMo"] = of_elmo | {INIT_FROM: elmo}
    return rows
