"""BLiMP's supplement: minimal pairs of dialogues and questions, by file."""

from research.evaluation.babylm.choices import Choices
from research.evaluation.babylm.result import PREDICTIONS
from research.evaluation.babylm.tasks.blimp import pair


class Task(Choices):
    official, full, fast = "blimp", "supplement_filtered", "supplement_fast"

    def items(self, row, stem, rules):
        name = "supplement"
        yield pair(row, field=name, UID=stem, linguistics_term=name)

    def collated(self, rules):
        return {"blimp_supplement": PREDICTIONS}
