"""Global PIQA, parallel: which of four solutions fits, per token; rules of 2026."""

from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.choices import Choices, Item


class Task(Choices):
    official, rules = "global_piqa_parallel", ("babylm_2026",)
    full = fast = "global_piqa_parallel"
    normalised, solutions = True, 4

    def fast_scores(self, result):
        return {self.official: result["value"]}

    def items(self, row, stem, rules):
        prompt = row["prompt"]
        shown = tuple(f" {row[f'solution{n}']}" for n in range(self.solutions))
        candidates = tuple(Candidate(prompt + each, each, prompt) for each in shown)
        yield Item({"UID": row["example_id"]}, candidates, shown, int(row["label"]))
