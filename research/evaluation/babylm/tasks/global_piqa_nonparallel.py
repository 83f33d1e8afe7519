"""Global PIQA, nonparallel: which of two solutions fits; rules of 2026."""

from research.evaluation.babylm.tasks import global_piqa_parallel


class Task(global_piqa_parallel.Task):
    official = full = fast = "global_piqa_nonparallel"
    solutions = 2
