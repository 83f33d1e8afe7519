"""A published encoder made smaller: by a teacher, by pruning, and without a teacher.

    palimpsest sweep --sweep=experiments/sweeps/smaller.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/smaller --config.train.init_from=hf:DIR
    palimpsest table --table=experiments/tables/smaller.py --workdir=runs/smaller

Question: how much of the quality of a model of 6 layers has a student of 3? DIR is a
model in Hugging Face's layout, which is tuned on each of the tasks SST-2, MRPC and
CoNLL-2000, for each seed anew, and then is the teacher. All students start from its
layers 1, 3 and 5, counted from 0, and train for as many steps, by the labels or by

- DistilBERT's way: labels, the teacher's classes, and the cosine of the last states;
- TinyBERT's way: states and attention of all layers in one half of the steps, the
  teacher's classes in the other;
- MiniLMv2's way: relations of the last layer in one half of the steps, labels in the
  other.

One more row has no teacher, but as many FLOPs as DistilBERT's way: a step of that costs
the teacher's forward pass, too. Pruned, and tuned further as 8-bit integers, are the
teachers themselves; integers without more training are palimpsest shrink's. Two rows
have weights of three values, which the float32 teacher trains by labels, classes,
states and attention (TernaryBERT, Zhang et al. 2020), with and without the limit of 2.5
of the released code.

The scale `quick` answers it on a processor: five seeds, as the others but `smoke`, few
rows a step, operands of products in bfloat16 (the integers' stay as they are), and no
movement pruning, whose scores learn too little in so few steps.

Departs: the papers distil on other text first, and TinyBERT on more data of the task;
here all learn from the task's alone. The token table, half of the parameters, stays as
published.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from launch.sweeps.finetuning import EXPERIMENT, INIT_FROM
from launch.sweeps.tasks import Task

TEACHER = "teacher (6 layers)"
PLAIN = "3 layers, labels alone"
AT_FLOPS = "3 layers, labels alone, equal FLOPs"
TASKS = {"SST-2": "accuracy", "CoNLL-2000": "f1", "MRPC": "accuracy"}
LAYERS, TEACHER_LAYERS = [1, 3, 5], 6
KEPT = 0.15
FLOPS_RATIO = {"sequence_classification": 2.3, "token_classification": 5 / 3}
"""Of a step of DistilBERT's way to one of labels alone, whose last layer computes only
what is scored: as the steps' `flops_per_step` have it for SST-2; for tags, 3 passes of
the student and one of the teacher, of twice its layers, to these 3."""


class Budget(NamedTuple):
    """Seeds, steps and rows of a step."""

    seeds: int
    teacher_steps: int
    steps: int
    batch: int
    prune: tuple[str, ...] = ("magnitude", "movement")
    product_dtype: str = "dtype"


BUDGETS = {
    "smoke": Budget(3, 200, 100, 32),
    "quick": Budget(5, 450, 400, 16, ("magnitude",), "bfloat16"),
}
FULL = Budget(5, 1000, 600, 32)
INT8_STEPS = 0.2
"""Of the steps of a student: the integers are the teacher's, which is trained."""

DISTILBERT = {"soft": 1.0, "hard": 1.0, "cosine": 1.0, "temperature": 2.0}
TINYBERT = (
    {"soft": 0.0, "hard": 0.0, "hidden": 1.0, "attention": 1.0, "projection": "none"},
    {"soft": 1.0, "hard": 0.0},
)
TERNARYBERT = {"soft": 1.0, "hard": 1.0, "hidden": 1.0, "attention": 1.0}
TERNARYBERT |= {"projection": "none"}
MINILM = {"soft": 0.0, "hard": 0.0, "relation": 1.0, "relation_heads": 12}
MINILM["layer_map"] = [-1, -1, TEACHER_LAYERS - 1]


def sweep(scale: str, tasks: Mapping[str, Task]) -> Iterator[tuple]:
    budget = BUDGETS.get(scale, FULL)
    for name in TASKS:
        for seed in range(budget.seeds) if name in tasks else ():
            for row, keys in _rows(tasks[name], budget, seed):
                yield EXPERIMENT, keys, (row, name)


def _rows(task: Task, budget: Budget, seed: int) -> Iterator[tuple[str, dict]]:
    """The rows of a task and a seed, each with its overrides."""
    shared = {
        "model.scan_unroll": TEACHER_LAYERS,
        "model.product_dtype": budget.product_dtype,
        "train.batch": budget.batch,
        "train.eval_every": 0,
        "train.checkpoint_every": 0,
        "optimizer.frozen": "token",
        **task.keys,
        "seed": seed,
    }
    teacher = shared | _budget(budget.teacher_steps, 5e-5)
    start = EXPERIMENT, teacher
    own = shared | {INIT_FROM: start} | _budget(budget.steps, 5e-5)
    student = own | {"train.init_layers": LAYERS} | _budget(budget.steps, 1e-4)
    yield TEACHER, teacher
    yield PLAIN, student
    name = task.keys.get("objective.name", "sequence_classification")
    yield AT_FLOPS, student | _budget(round(budget.steps * FLOPS_RATIO[name]), 1e-4)
    yield "DistilBERT's way", student | _distilled(task, start, DISTILBERT)
    half = _budget(budget.steps // 2, 1e-4)
    for row, first, second in (
        ("TinyBERT's way", TINYBERT[0], _distilled(task, start, TINYBERT[1])),
        ("MiniLMv2's way", MINILM, {}),
    ):
        begun = EXPERIMENT, student | half | _distilled(task, start, first)
        rest = {key: value for key, value in own.items() if key != INIT_FROM}
        yield row, rest | half | {INIT_FROM: begun} | second
    for method in budget.prune:
        pruning = {"optimizer.prune": method, "optimizer.prune_kept": KEPT}
        yield f"6 layers, {KEPT:.0%} kept by {method}", own | pruning
    ternary = {"model.quantization": "ternary", "model.quantization_scale": "tensor"}
    ternary |= _distilled(task, start, TERNARYBERT)
    for row, clip in (("", 0.0), (", clipped", 2.5)):
        clipped = {"model.quantization_clip": clip}
        yield f"6 layers, ternary{row}", own | ternary | clipped
    few = _budget(round(INT8_STEPS * budget.steps), 5e-5)
    yield "6 layers, int8 in training", own | few | {"model.quantization": "int8"}


def _budget(steps: int, rate: float) -> dict[str, Any]:
    """Keys of a run of so many steps, whose peak rate is `rate`."""
    keys = {"train.steps": steps, "optimizer.warmup_steps": max(1, steps // 10)}
    return keys | {"optimizer.learning_rate": rate}


def _distilled(task: Task, teacher: tuple, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Keys by which the task's objective is distilled; they replace its own."""
    prefix = "objective."
    base = {
        key.removeprefix(prefix): value
        for key, value in task.keys.items()
        if key.startswith(prefix)
    }
    return {
        "objective.name": "distill",
        "objective.base_objective": base.pop("name", "sequence_classification"),
        "objective.base": base,
        "objective.teacher": teacher,
    } | {prefix + name: value for name, value in terms.items()}
