"""What a tagger and a classifier gain from features that others have learned.

    palimpsest sweep --sweep=experiments/sweeps/features.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/features --config.data.normalizer=lower \\
        --config.data.corpus='words/*.jsonl'

Question (Peters et al. 2018, table 1; McCann et al. 2017, table 3): does it help that
the vector of a word depends on its text? In each row a BiLSTM of WIDTH units a
direction reads features that it does not change, and a linear layer its states:

- vectors that are drawn, or GloVe's (each task's objective.vectors);
- the last states of a CoVe that translates the pairs of the task Multi30k, alone and
  beside the vectors that it reads;
- all layers of an ELMo, mixed: of one that has read the corpus, and of one as drawn.

The texts have words and marks apart (experiments/studies/words_apart.py),
as those of the tasks.

Departs: ELMo's features are alone, where the paper has them beside a task's own
vectors; both encoders are small, and are trained for minutes, anew for each seed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from launch.sweeps import finetuning
from launch.sweeps.finetuning import INIT_FROM
from launch.sweeps.tasks import Task
from research.contract.errors import UserError

TASKS = {"CoNLL-2000": "f1", "SST-2": "accuracy"}
WIDTH = 64
ELMO = {
    "model.cell_width": 128,
    "model.character_filters": [16, 32, 64],
    "objective.sampled_words": 512,
    "data.vocabulary_size": 24_000,
    "data.length": 64,
    "train.batch": 16,
}
COVE = {
    "data.vocabulary_size": 8_000,
    "data.length": 28,
    "objective.target_length": 28,
    "optimizer.warmup_steps": 100,
    "model.dropout": 0.0,
    "train.batch": 16,
}
VECTORS = ("objective.vectors", "objective.vectors_width")
DRAWN = "drawn vectors"
CLASSIFIER, PAIRS = "sequence_classification", "Multi30k"


class Budget(NamedTuple):
    """Seeds, and the steps of ELMo, of CoVe and of a task."""

    seeds: int
    elmo_steps: int
    cove_steps: int
    steps: int


BUDGETS = {"smoke": Budget(2, 100, 100, 50), "quick": Budget(5, 1600, 2000, 300)}
BUDGETS["cpu"] = Budget(5, 16_000, 10_000, 2_000)
FULL = Budget(5, 100_000, 10_000, 2_000)


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    budget = BUDGETS.get(scale, FULL)
    chosen = {name: tasks[name] for name in TASKS if name in tasks}
    if not chosen:
        raise UserError(f"--tasks has none of {', '.join(TASKS)}")
    translated = PAIRS in tasks and any(map(_named, chosen.values()))
    for seed in range(budget.seeds):
        shared = {"model.width": WIDTH, "seed": seed}
        elmo = "experiments/elmo.py", ELMO | _steps(budget.elmo_steps) | shared
        cove = None
        if translated:
            keys = COVE | _steps(budget.cove_steps) | shared
            pairs = tasks[PAIRS].keys.items()
            keys |= {k: v for k, v in pairs if k.startswith("data.")}
            cove = "experiments/cove.py", keys | _vectors(*chosen.values())
        for name, task in chosen.items():
            keys = _task(task, budget) | {"seed": seed}
            for row, own in _rows(task, elmo, cove):
                yield finetuning.EXPERIMENT, keys | own, (row, name)


def _steps(steps: int) -> dict[str, Any]:
    keys = {"train.steps": steps, "train.log_every": max(10, steps // 20)}
    return keys | {"train.eval_every": 0, "train.checkpoint_every": 0}


def _task(task: Task, budget: Budget) -> dict[str, Any]:
    """Keys of all rows on a task."""
    keys = _steps(budget.steps) | {
        "data.vocabulary": "words",
        "data.vocabulary_size": 12_000,
        "data.sentinels": 0,
        "model.network": "lstm",
        "model.width": WIDTH,
        "model.dropout": 0.0,
        "objective.lstm_layers": 1,
        "optimizer.frozen": "network",
        "optimizer.learning_rate": 3e-3,
        "train.batch": 16,
    }
    if task.keys.get("objective.name", CLASSIFIER) == CLASSIFIER:
        keys |= {"objective.head": "linear", "objective.pool": "max"}
    return keys | {k: v for k, v in task.keys.items() if k not in VECTORS}


def _vectors(*tasks: Task) -> dict[str, Any]:
    """The vectors that the tasks name which name any.

    Raises:
      UserError: they name several files.
    """
    found = [{key: task.keys[key] for key in VECTORS} for task in tasks if _named(task)]
    if len(files := {each[VECTORS[0]] for each in found}) > 1:
        raise UserError(
            f"{VECTORS[0]} of --tasks is {' and '.join(sorted(files))}, but one CoVe "
            f"reads the vectors of all tasks: name one file, or leave out {PAIRS}"
        )
    return found[0] if found else {}


def _named(task: Task) -> bool:
    return VECTORS[0] in task.keys


def _rows(task: Task, elmo: tuple, cove: tuple | None) -> Iterator[tuple[str, dict]]:
    """Rows, and their own keys on a task."""
    vectors = {"objective.features": "vectors"}
    yield DRAWN, vectors | dict(zip(VECTORS, ("random", 50), strict=True))
    if _named(task):
        yield "GloVe", vectors | _vectors(task)
    if _named(task) and cove:
        own = _vectors(task) | _network(cove) | {"train.init_scope": "encoder"}
        own |= {INIT_FROM: cove}
        yield "CoVe", own | {"objective.features": "last"}
        yield "GloVe and CoVe", own | {"objective.features": "vectors_last"}
    own = _network(elmo) | {"objective.features": "mix"}
    yield "ELMo as drawn", own
    yield "ELMo", own | {INIT_FROM: elmo}


def _network(start: tuple) -> dict[str, Any]:
    keys = finetuning.network_keys(start)
    return {key: value for key, value in keys.items() if key.startswith("model.")}
