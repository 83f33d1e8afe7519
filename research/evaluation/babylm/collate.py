"""The file to submit: all predictions, and the scores of checkpoints.

It is the pipeline's all_full_preds_and_fast_scores_BACKEND.json (collate_preds.py),
except that fast EWoK is compared with the content of its predictions: the pipeline of
2026 compares whole sentences with targets, so that all are wrong.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from research.evaluation.babylm.rules import MAIN, Rules
from research.evaluation.babylm.tasks import all_tasks, finetuned
from research.files.output_files import replace_text

RESULT = "result.json"
"""Beside a task's predictions: its number with an interval, and what it is of."""


def collate(folder: Path, backend: str, names: Sequence[str], rules: Rules) -> Path:
    """Writes the file of a model's results; what is missing is null.

    Args:
      folder: the model's results, with a folder for each revision.
      names: the checkpoints whose fast scores it has, in order.
    """
    content: dict[str, Any] = {}
    fast: dict[str, list] = {}
    for task in all_tasks().values():
        files = task.collated(rules) if rules.name in task.rules else {}
        for key, file in files.items():
            at = task.results_folder(backend, task.full)
            content[key] = _load(folder / MAIN / at / file)
            if task.fast:
                at = task.results_folder(backend, task.fast)
                results = (_load(folder / step / at / RESULT) for step in names)
                scores = [each and task.fast_scores(each["result"]) for each in results]
                fast[key] = scores
    for task in filter(finetuned, all_tasks().values()):
        content[task.official] = {}
        for name in finetuned(task):
            found = _load(folder / MAIN / "finetune" / name / "predictions.json")
            content[task.official] |= found or {}
    content["fast_eval_results"] = fast
    path = folder / f"all_full_preds_and_fast_scores_{backend}.json"
    replace_text(path, json.dumps(content))
    return path


def _load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else None
