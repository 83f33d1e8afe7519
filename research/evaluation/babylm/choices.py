"""Tasks of candidates: the most probable one is chosen, or its odds are compared."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from research.contract.errors import UserError
from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.judge import Judge, LogProb
from research.evaluation.babylm.result import (
    PREDICTIONS,
    SPLITS,
    Result,
    accuracy_result,
    rho_result,
)
from research.evaluation.babylm.rules import RULES, Rules
from research.evaluation.score_tables import credit
from research.files.output_files import replace_text

TEMPERATURE = "TEMPERATURE: 1.00"
"""The first line of a report; the pipeline's scripts try no other."""


class Item(NamedTuple):
    """A row: candidates, one of which is right."""

    groups: Mapping[str, str]  # column of the report -> the item's group; UID is one
    candidates: tuple[Candidate, ...]
    shown: tuple[str, ...]  # what predictions.json shows of each candidate
    label: int = 0  # the right one
    human: float = 0.0  # fraction of people who choose the first

    @property
    def uid(self) -> str:
        return self.groups["UID"]


class Choices:
    """The base of tasks of candidates; each is the class Task of a module of `tasks`.

    Attributes:
      official: the task's name in the pipeline.
      full, fast: the folders of its data; "": it is not in that set.
      rules: names of the rules that have it.
      normalised: scores are divided by the number of tokens.
      is_correlation: the number is one, not a fraction.
    """

    official: ClassVar[str]
    full: ClassVar[str]
    fast: ClassVar[str]
    rules: ClassVar[tuple[str, ...]] = tuple(RULES)
    normalised: ClassVar[bool] = False
    is_correlation: ClassVar[bool] = False

    def collated(self, rules: Rules) -> dict[str, str]:
        """Its names in the collated file -> its file of the last checkpoint there."""
        return {self.official: PREDICTIONS}

    def fast_scores(self, result: Mapping[str, Any]) -> dict[str, float]:
        """The scores of a checkpoint in the collated file, as fractions."""
        uids = result["groups"]["UID"]
        return {uid: share for uid, share in uids.items() if uid not in SPLITS}

    def items(self, row: Mapping[str, Any], stem: str, rules: Rules) -> Iterator[Item]:
        """The item of a row of the file `stem`.jsonl, or none."""
        raise NotImplementedError

    def results_folder(self, backend: str, dataset: str) -> str:
        """The folder of its files, below that of a revision."""
        return f"zero_shot/{backend}/{self.official}/{dataset}"

    def read(self, data: Path, rules: Rules) -> list[Item]:
        """The items of a folder's files, in the order of their names.

        Raises:
          UserError: the folder has no rows, or a row is malformed.
        """
        items = []
        for path in sorted(data.glob("[!.]*.jsonl")):
            with path.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        items += self.items(json.loads(line), path.stem, rules)
                    except (ValueError, KeyError, TypeError) as error:
                        raise UserError(
                            f"{path}, line {number}: not a row of {self.official} "
                            f"({type(error).__name__}: {error})"
                        ) from error
        if not items:
            raise UserError(f"{data} has no rows of {self.official} in *.jsonl")
        return items

    def evaluate(self, judge: Judge, data: Path, folder: Path, rules: Rules) -> Result:
        """Scores the items, and writes predictions.json and the report."""
        items = self.read(data, rules)
        scores = self.scores(judge, items)
        chosen = [
            choose(values, rules.ties, f"{item.uid} {number}")
            for number, (item, values) in enumerate(zip(items, scores, strict=True))
        ]
        predictions = self.predictions(items, scores, chosen)
        replace_text(folder / PREDICTIONS, json.dumps(predictions))
        right = [i.label == which for i, which in zip(items, chosen, strict=True)]
        result = self.judged(items, scores, right)
        lines = report_lines(result, self.metric, self.unit)
        name = "best_temperature_report.txt"
        replace_text(folder / name, "\n".join([TEMPERATURE, "", *lines]) + "\n")
        return result

    metric: ClassVar[str] = "ACCURACY"
    unit: ClassVar[float] = 100.0

    def scores(self, judge: Judge, items: Sequence[Item]) -> list[list[float]]:
        """The score of each candidate of each item."""
        flat = [candidate for item in items for candidate in item.candidates]
        found = iter(judge.log_probs(flat))
        return [[self._value(next(found)) for _ in item.candidates] for item in items]

    def _value(self, score: LogProb) -> float:
        return score.total / max(1, score.num_tokens if self.normalised else 1)

    def predictions(
        self, items: Sequence[Item], scores: Any, chosen: Sequence[int]
    ) -> dict[str, Any]:
        """The content of predictions.json."""
        by_uid: dict[str, Any] = {}
        for item, which in zip(items, chosen, strict=True):
            rows = by_uid.setdefault(item.uid, {"predictions": []})["predictions"]
            rows.append({"id": f"{item.uid}_{len(rows)}", "pred": item.shown[which]})
        return by_uid

    def judged(
        self, items: Sequence[Item], scores: Sequence[Any], right: Sequence[bool]
    ) -> Result:
        """The mean accuracy of the UIDs."""
        shared = [credit(v, i.label) for i, v in zip(items, scores, strict=True)]
        return accuracy_result([item.groups for item in items], right, shared)


class Odds(Choices):
    """The base of tasks whose odds of the first candidate are compared with people's.

    The number is Spearman's correlation between its probability among the candidates
    and `human`.
    """

    metric, unit = "SPEARMAN'S RHO", 1.0
    is_correlation = True

    def fast_scores(self, result):
        return {self.official: result["value"]}

    def predictions(self, items, scores, chosen):
        by_uid = super().predictions(items, scores, chosen)
        rows = iter(_odds(scores))
        for entry in by_uid.values():
            for prediction in entry["predictions"]:
                prediction["prob"] = next(rows)
        return by_uid

    def judged(self, items, scores, right):
        return rho_result(_odds(scores), [item.human for item in items])


def _odds(scores: Sequence[Sequence[float]]) -> list[float]:
    """The first candidate's softmax probability, in float32 as in the pipeline."""
    odds = []
    for values in scores:
        shifted = np.exp(np.float32(values) - np.float32(max(values)))
        odds.append(float(shifted[0] / shifted.sum()))
    return odds


def choose(values: Sequence[float], ties: str, key: str) -> int:
    """The candidate with the highest score; NaN is the lowest.

    Args:
      ties: how to choose among scores equal in float32: first, or random, which depends
        only on the key.
    """
    clean = np.nan_to_num(np.float32(values), nan=-np.inf, posinf=np.inf)
    tied = np.flatnonzero(clean == clean.max())
    if ties == "first" or len(tied) == 1:
        return int(tied[0])
    draw = np.random.default_rng(zlib.crc32(key.encode()))
    return int(draw.choice(tied))


def report_lines(result: Result, metric: str, unit: float) -> list[str]:
    """The lines of best_temperature_report.txt after the temperature."""
    lines = []
    for column, groups in result.groups.items():
        lines.append(f"### {column.upper()} {metric}")
        lines += [f"{name}: {unit * share:.2f}" for name, share in groups.items()]
        lines.append("")
    return [*lines, f"### AVERAGE {metric}", f"{unit * result.value:.2f}", ""]
