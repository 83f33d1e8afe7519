"""Tasks of the BabyLM Challenge: each a class Task of its module, found by listing."""

from research.contract.parts import Folder

TASKS = Folder("research.evaluation.babylm.tasks", "Task")
