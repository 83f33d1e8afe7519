"""Tasks of the BabyLM Challenge: each a class Task of its module, found by listing."""

from collections.abc import Mapping
from typing import Any

from research.contract.parts import Folder

TASKS = Folder("research.evaluation.babylm.tasks", "Task")


def all_tasks() -> dict[str, Any]:
    """Name -> task."""
    return {name: TASKS.part_class(name, "--tasks")() for name in TASKS.names()}


def finetuned(task: Any) -> Mapping[str, Any]:
    """The tasks within one that the last checkpoint is trained on; {}: it is scored."""
    return getattr(task, "finetuned", {})


def owners() -> dict[str, str]:
    """Name of a task that the last checkpoint is trained on -> the one that has it."""
    return {of: name for name, task in all_tasks().items() for of in finetuned(task)}
