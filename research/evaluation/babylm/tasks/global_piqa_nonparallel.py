"""Global PIQA, nonparallel: which of two solutions follows a prompt, per token."""

from research.evaluation.babylm.tasks import global_piqa_parallel


class Task(global_piqa_parallel.Task):
    official = full = fast = "global_piqa_nonparallel"
    solutions = 2
