"""COMPS (Misra et al. 2023): which of two subjects has a property."""

from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.choices import Choices, Item

GROUPS = {
    "comps_base": "base",
    "comps_wugs": "wugs",
    "comps_wugs_dist-before": "wugs_dist_before",
    "comps_wugs_dist-in-between": "wugs_dist_in_between",
}


class Task(Choices):
    official, full, fast = "comps", "comps", ""

    def items(self, row, stem, rules):
        said = row["property_phrase"]
        prefixes = row["prefix_acceptable"], row["prefix_unacceptable"]
        texts = tuple(f"{prefix} {said}" for prefix in prefixes)
        candidates = tuple(map(Candidate, texts, [said] * 2, prefixes))
        yield Item({"UID": GROUPS[stem]}, candidates, texts)
