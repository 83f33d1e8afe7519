"""BLiMP, filtered to the words of the corpus (Warstadt et al. 2020): minimal pairs."""

from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.choices import Choices, Item


def pair(row, **groups: str) -> Item:
    """The item of a good and a bad sentence, which are scored as a whole."""
    texts = row["sentence_good"], row["sentence_bad"]
    return Item(groups, tuple(Candidate(text, text) for text in texts), texts)


class Task(Choices):
    official, full, fast = "blimp", "blimp_filtered", "blimp_fast"

    def items(self, row, stem, rules):
        field, term = row["field"], row["linguistics_term"]
        field = {"syntax_semantics": "syntax/semantics"}.get(field, field)
        yield pair(row, field=field, UID=row["UID"], linguistics_term=term)
