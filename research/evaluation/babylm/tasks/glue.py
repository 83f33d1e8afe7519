"""(Super)GLUE by fine-tuning: the seven tasks, their texts and their schedules."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from research.evaluation.babylm.rules import RULES, Rules


class Finetuning(NamedTuple):
    """How a task's rows are read and trained on.

    See finetune/dataset.py and scripts/eval_finetuning.sh.
    """

    first: str  # the first text, a format of the row's fields
    second: str
    labels: int
    batch: int = 32
    epochs: int = 10
    metric: str = "accuracy"  # chooses the epoch, and is reported

    def texts(self, row: Mapping[str, Any]) -> tuple[str, str]:
        return self.first.format(**row), self.second.format(**row)


SENTENCES = "{sentence1}", "{sentence2}"
REFERS = 'Does "{span2_text}" refer to "{span1_text}" in this passage?'
SUBTASKS = {
    "boolq": Finetuning("{question}", "{passage}", 2, batch=16),
    "mnli": Finetuning("{premise}", "{hypothesis}", 3),
    "mrpc": Finetuning(*SENTENCES, 2, metric="f1"),
    "multirc": Finetuning(
        "Question: {question} Answer: {answer}", "{paragraph}", 2, batch=16
    ),
    "qqp": Finetuning("{question1}", "{question2}", 2, metric="f1"),
    "rte": Finetuning(*SENTENCES, 2),
    "wsc": Finetuning(REFERS, "{text}", 2, epochs=30),
}
"""The tasks, in the order of the collated file."""


class Task:
    """What `launch.glue` trains the last checkpoint on."""

    official: ClassVar[str] = "glue"
    full: ClassVar[str] = "glue_filtered"
    fast: ClassVar[str] = ""
    rules: ClassVar[tuple[str, ...]] = tuple(RULES)
    finetuned: ClassVar[Mapping[str, Finetuning]] = SUBTASKS

    def collated(self, rules: Rules) -> dict[str, str]:
        return {}
