"""The evaluations of a run: of its evaluation split, and at its end of data.test."""

from collections.abc import Callable
from typing import Any

from research.data.pipeline import open_data
from research.errors import UserError
from research.evaluation.evaluate import evaluate
from research.run.setup import Program, make_eval_zeros


class Evaluations:
    """Evaluates parameters of a run; holds the scores of single items of each split.

    The test split is that of data.test, where it names files and the objective predicts
    something: so a sweep can choose by one split and report another.
    """

    def __init__(self, program: Program, config: Any):
        self._programs = {config.data.eval_split: program}
        self._zeros = make_eval_zeros(program)
        self.item_scores: dict[str, list[float]] = {}
        self.origin: dict[str, str] = {}  # of the test split, for the provenance
        self.predicts = hasattr(program.objective, "predicts")
        if self.predicts and config.data.test and config.data.eval_split != "test":
            self._programs["test"] = _with_test_split(program, config)
            data = self._programs["test"].data
            self.origin = {"test_data": data.fingerprint}

    def run(
        self, params: Any, *, last: bool, before_batch: Callable[[], None]
    ) -> dict[str, float]:
        """Metrics by name, such as "valid/loss".

        Args:
          last: no step follows: the test split is evaluated, too.
        """
        metrics = {}
        for split, program in self._programs.items():
            if split == "test" and len(self._programs) > 1 and not last:
                continue
            zeros = self._zeros()
            scores = evaluate(program, params, zeros, before_batch, writes_texts=last)
            metrics |= {f"{split}/{name}": v for name, v in scores.metrics.items()}
            if scores.items:
                known = [item.score for item in scores.items if item.score is not None]
                self.item_scores[split] = known
        return metrics


def _with_test_split(program: Program, config: Any) -> Program:
    """The program with the test split's data in place of the evaluation split's.

    Raises:
      UserError: it has labels that the other splits have not.
    """
    changed = config.copy_and_resolve_references()
    changed.data.eval_split = "test"
    data = open_data(changed, program.objective)
    labels, known = data.vocab.labels, program.data.vocab.labels
    if labels != known and program.objective.predicts != "number":
        raise UserError(
            f"data.test has other labels ({', '.join(labels)}) than the training and "
            f"evaluation text ({', '.join(known)})"
        )
    return program._replace(data=data)
