"""Fine-tunes a model on (Super)GLUE by the BabyLM pipeline's protocol."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from launch.config import load_config
from research.contract.errors import UserError
from research.evaluation.babylm.result import Result
from research.evaluation.babylm.rules import MAIN, Rules
from research.evaluation.babylm.tasks.glue import Finetuning
from research.files.output_files import replace_text
from research.objectives import objective_class

EXPERIMENT = "experiments/finetune.py"
LENGTH = 512
BUCKETS = (32, 64, 128, 256)
"""Row lengths shorter than the longest; texts of similar length share a batch."""
WARMUP = 0.06
"""Fraction of the steps."""
FIRST_SEED = 42

PROTOCOL = {
    "objective.head": "standardized",
    "optimizer.name": "adamw",
    "optimizer.learning_rate": 3e-5,
    "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999,
    "optimizer.epsilon": 1e-8,
    "optimizer.bias_correction": True,
    "optimizer.weight_decay": 0.01,
    "optimizer.decay_params": "all",
    "optimizer.clip_norm": 0.0,
    "optimizer.warmup": "from_zero",
    "optimizer.decay_from": "warmup",
    "optimizer.schedule": "cosine",
    "optimizer.final_fraction": 0.1,
    "model.head_dropout": 0.1,
    "data.fields": "first,second",
    "data.label": "label",
    "train.keep_checkpoints": 1,
}
"""Keys of all tasks (finetune/run.py, scripts/eval_finetuning.sh)."""


def finetune(
    checkpoints: Any,
    rows: Path,
    folder: Path,
    rules: Rules,
    tasks: Mapping[str, Finetuning],
    names: Sequence[str] = (),
    *,
    seeds: int = 1,
    cache_dir: str = "",
    report: Callable[[str], None] = print,
) -> dict[str, Result]:
    """The last checkpoint's results on tasks, by name.

    Each task's folder gets predictions.json and results.txt of the first seed, and the
    runs of all seeds.

    Args:
      checkpoints: `research.use.babylm.checkpoints.Checkpoints`.
      rows: the folder of TASK.train.jsonl and TASK.valid.jsonl.
      names: of tasks that need files; (): all whose files exist.

    Raises:
      UserError: a named task has no files, or a file has a wrong row.
    """
    from research.train import train  # imports JAX

    model, results = checkpoints.open(MAIN), {}
    for name in names or tasks:
        files = {split: rows / f"{name}.{split}.jsonl" for split in ("train", "valid")}
        if missing := [path for path in files.values() if not path.is_file()]:
            if names:
                raise UserError(f"{missing[0]}: no such file")
            report(f"{name}: no file {missing[0].name}, so it is not fine-tuned on")
            continue
        task, at = tasks[name], folder / name
        at.mkdir(parents=True, exist_ok=True)
        counts = {split: _prepare(path, at, task) for split, path in files.items()}
        keys = {f"data.{split}": str(at / f"{split}.jsonl") for split in files}
        keys |= (
            PROTOCOL | model_keys(model, rules) | schedule_keys(task, counts["train"])
        )
        keys |= {"train.init_from": checkpoints.source_of_main()}
        keys |= {"data.cache_dir": cache_dir}
        runs = []
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            workdir = at / f"seed_{seed}"
            config = load_config(EXPERIMENT, keys | {"seed": seed}, workdir=workdir)
            train(config, workdir)
            shutil.rmtree(workdir / "checkpoints", ignore_errors=True)
            runs.append(_read_predictions(workdir / "predictions" / "valid.jsonl"))
        _write_files(at, name, task, runs[0])
        results[name] = _result(task, runs)
    return results


def model_keys(model: Any, rules: Rules) -> dict[str, Any]:
    """Keys for the rows that a model is fine-tuned on, and the state its head reads.

    An objective's own special tokens surround the texts, as in its exported tokenizer;
    encoder-decoders read BART's rows, and permuted LM XLNet's.
    """
    needs, options = model.needs, model.run.network.options
    keys: dict[str, Any] = {"objective.pool": rules.pooled}
    if needs.stacks == "encoder_decoder":
        keys = {"objective.format": "bart", "objective.pool": "token"}
    elif needs.pattern == "causal":
        keys["objective.format"] = "causal"
    else:
        has_types = getattr(options, "token_types", 0) > 1
        pretrained_by = objective_class(model.run.objective.unwrapped.name)
        keys["objective.format"] = pretrained_by.task_format
        if keys["objective.format"] == "bert" and not has_types:
            keys["objective.format"] = "plain"
    if needs.stacks == "generator_discriminator":
        keys["train.init_scope"] = "discriminator"
    length = min(LENGTH, model.run.config.data.length)
    buckets = [bucket for bucket in BUCKETS if bucket < length]
    return keys | {"data.length": length, "data.length_buckets": buckets}


def schedule_keys(task: Finetuning, num_rows: int) -> dict[str, Any]:
    """Keys for the steps of a task's epochs, with an evaluation after each epoch.

    Raises:
      UserError: there are fewer rows than a batch.
    """
    in_epoch = num_rows // task.batch
    if not in_epoch:
        raise UserError(f"{num_rows} rows are fewer than a batch of {task.batch}")
    steps = in_epoch * task.epochs
    return {
        "train.batch": task.batch,
        "train.steps": steps,
        "train.eval_every": in_epoch,
        "train.checkpoint_every": in_epoch,
        "train.log_every": min(50, in_epoch),
        "train.best_metric": task.metric,
        "optimizer.warmup_steps": int(WARMUP * steps),
    }


def _prepare(path: Path, folder: Path, task: Finetuning) -> int:
    """Writes a split's texts and labels in `folder`; returns their number."""
    lines, split = [], path.name.split(".")[1]
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                first, second = task.texts(row)
                label = str(int(row["label"]))
                if split == "valid" and not (first.strip() and second.strip()):
                    raise ValueError("a blank text, for which nothing is predicted")
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{path}, line {number}: not a row of this task "
                    f"({type(error).__name__}: {error})"
                ) from error
            lines.append(json.dumps({"first": first, "second": second, "label": label}))
    replace_text(folder / f"{split}.jsonl", "\n".join(lines) + "\n")
    return len(lines)


def _read_predictions(path: Path) -> list[tuple[int, int]]:
    """(prediction, gold) of each row, in the order of the file."""
    with path.open(encoding="utf-8") as file:
        lines = [*map(json.loads, file)]
    ordered = sorted(lines, key=lambda line: int(line["id"].rpartition(":")[2]))
    return [(int(line["prediction"]), int(line["gold"])) for line in ordered]


def _metrics(pairs: Sequence[tuple[int, int]], *, binary: bool) -> dict[str, float]:
    """The pipeline's metrics; with two classes, 1 is the positive one."""
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    predictions, golds = zip(*pairs, strict=True)
    found = {"accuracy": float(accuracy_score(golds, predictions))}
    if binary:
        found["f1"] = float(f1_score(golds, predictions))
        found["mcc"] = float(matthews_corrcoef(golds, predictions))
    return found


def _write_files(
    folder: Path, name: str, task: Finetuning, pairs: Sequence[tuple[int, int]]
) -> None:
    predictions = [
        {"id": f"{name}_{number}", "pred": prediction}
        for number, (prediction, _) in enumerate(pairs)
    ]
    content = json.dumps({name: {"predictions": predictions}})
    replace_text(folder / "predictions.json", content)
    metrics = _metrics(pairs, binary=task.labels == 2)
    lines = [f"{key}: {value}" for key, value in metrics.items()]
    replace_text(folder / "results.txt", "\n".join(lines))


def _result(task: Finetuning, runs: Sequence[Sequence[tuple[int, int]]]) -> Result:
    """The mean over seeds, with an interval over seeds and items.

    With fewer than three seeds it is over the items of the first.
    """
    from research.evaluation.jackknife import pseudo_values
    from research.evaluation.statistics import MIN_SEEDS, estimate

    of_seeds = [_metrics(pairs, binary=task.labels == 2) for pairs in runs]
    values = [metrics[task.metric] for metrics in of_seeds]
    count = len(runs[0])

    def metric(items: np.ndarray) -> np.ndarray:
        kept = [[pairs[n] for n in items.tolist()] for pairs in runs]
        found = (_metrics(pairs, binary=task.labels == 2) for pairs in kept)
        return np.array([metrics[task.metric] for metrics in found])

    draws = pseudo_values(metric, count, num_groups=min(count, 100))
    is_few = len(runs) < MIN_SEEDS
    margin = estimate(draws[0] if is_few else draws).margin
    value = float(np.mean(values))
    more: Mapping[str, float] = {"seeds": len(runs)} | of_seeds[0]
    return Result(value, value - margin, value + margin, count, more=more)
