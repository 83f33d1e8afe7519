"""Entity tracking (Kim and Schuster 2023): what a box contains after some moves."""

from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.choices import Choices, Item
from research.evaluation.babylm.result import PREDICTIONS, SPLITS, accuracy_result
from research.evaluation.score_tables import credit


def _filtered(rules):
    """Whether rows with the option "nothing" are left out."""
    return rules.year >= 2026


class Task(Choices):
    official = "entity_tracking"
    full, fast = "entity_tracking", "entity_tracking_fast"

    def collated(self, rules):
        end = "_filtered" if _filtered(rules) else ""
        return {self.official + end: PREDICTIONS}

    def items(self, row, stem, rules):
        options, prefix = tuple(row["options"]), row["input_prefix"]
        if _filtered(rules) and any("nothing" in each for each in options):
            return
        candidates = tuple(Candidate(prefix + each, each, prefix) for each in options)
        yield Item({"UID": f"{stem}_{row['numops']}_ops"}, candidates, options)

    def judged(self, items, scores, right):
        """The mean over splits of the means over numbers of operations."""
        shared = [credit(v, i.label) for i, v in zip(items, scores, strict=True)]
        groups = [item.groups for item in items]
        return accuracy_result(groups, right, shared, splits=SPLITS)
