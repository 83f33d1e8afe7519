"""Nouns of adjectives (Hofmann et al. 2024), as people choose; rules of 2025."""

from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.choices import Item, Odds


class Task(Odds):
    official, rules = "wug_adj", ("babylm_2025",)
    full = fast = "wug_adj_nominalization"

    def items(self, row, stem, rules):
        texts = tuple(row["sentences"].split("\t"))
        candidates = tuple(Candidate(text, text) for text in texts)
        human = float(row["ratio"])
        yield Item({"UID": self.official}, candidates, texts, human=human)
