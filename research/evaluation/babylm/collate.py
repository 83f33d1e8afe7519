"""The file that is handed in: all predictions, and what checkpoints score.

It is the pipeline's all_full_preds_and_fast_scores_BACKEND.json (collate_preds.py),
except that fast EWoK is compared with what its predictions hold: that of 2026 compares
whole sentences with targets, so that all are wrong.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from research.evaluation.babylm.result import SPLITS
from research.evaluation.babylm.rules import MAIN, Rules
from research.evaluation.babylm.tasks import TASKS
from research.evaluation.babylm.tasks.glue import TASKS as GLUE
from research.files.output_files import replace_text

RESULT = "result.json"
"""Beside a task's predictions: its number with an interval, and what it is of."""

ORDER = (
    "blimp",
    "supplement",
    "ewok",
    "entity_tracking",
    "wug_adj",
    "wug_past",
    "comps",
    "global_piqa_parallel",
    "global_piqa_nonparallel",
    "reading",
)
"""Tasks in the order of the file."""


def collate(folder: Path, backend: str, names: Sequence[str], rules: Rules) -> Path:
    """Writes the file of a model's results; what is missing is null.

    Args:
      folder: of the model's results, with a folder for each revision.
      names: of the checkpoints whose fast scores it has, in their order.
    """
    content: dict[str, Any] = {}
    fast: dict[str, list] = {}
    for name in ORDER:
        task = TASKS.part_class(name, "task")()
        if rules.name not in task.rules:
            continue
        key = rules.entity_key if name == "entity_tracking" else task.collated or name
        at = task.results_folder(backend, task.full)
        content[key] = _load(folder / MAIN / at / "predictions.json")
        if task.fast:
            at = task.results_folder(backend, task.fast)
            results = (_load(folder / step / at / RESULT) for step in names)
            fast[key] = [_fast_scores(name, result) for result in results]
    surprisals = folder / MAIN / f"zero_shot/{backend}/AoA_word"
    files = ("surprisal.json", "aoa_score.json")
    for key, file in zip(rules.aoa_keys, files, strict=False):
        content[key] = _load(surprisals / file)
    content["glue"] = {}
    for name in GLUE:
        found = _load(folder / MAIN / "finetune" / name / "predictions.json")
        content["glue"] |= found or {}
    content["fast_eval_results"] = fast
    path = folder / f"all_full_preds_and_fast_scores_{backend}.json"
    replace_text(path, json.dumps(content))
    return path


def _fast_scores(name: str, result: Any) -> dict[str, float] | None:
    """The scores of a checkpoint's task, as fractions."""
    if result is None:
        return None
    result = result["result"]
    if name == "reading":
        return {"spr": result["more"]["self-paced"], "rt": result["value"]}
    if name.startswith("global_piqa"):
        return {name: result["value"]}
    if name.startswith("wug"):
        return {name: result["value"]}
    uids = result["groups"]["UID"]
    return {uid: share for uid, share in uids.items() if uid not in SPLITS}


def _load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else None
