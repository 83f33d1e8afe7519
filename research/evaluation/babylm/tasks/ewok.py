"""EWoK (Ivanova et al. 2024): which of two targets fits a context, or the reverse."""

from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.choices import Choices, Item


class Task(Choices):
    """Its terms require that rows are kept out of logs and repositories."""

    official, full, fast = "ewok", "ewok_filtered", "ewok_fast"

    def items(self, row, stem, rules):
        contexts, targets = (
            [row[f"{name}{n}"] for n in (1, 2)] for name in ("Context", "Target")
        )
        read, said = contexts, targets[:1] * 2
        if rules.year < 2026:  # two targets, whose prefixes are both contexts there
            read, said = contexts[:1] * 2, targets
        texts = tuple(map("{} {}".format, read, said))
        completions = tuple(map(" {}".format, said))
        groups = {
            "UID": row["Domain"],
            "context_type": row["ContextType"],
            "context_contrast": row["ContextDiff"],
            "target_contrast": row["TargetDiff"],
        }
        candidates = tuple(map(Candidate, texts, completions, contexts))
        yield Item(groups, candidates, texts if said[0] == said[1] else completions)
