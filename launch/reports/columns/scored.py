"""Columns from the scores that `palimpsest score` wrote for pretrained networks."""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from launch.reports import columns
from launch.reports.columns import PRETRAINING
from launch.reports.tables import Column, Scoring
from launch.sweeps.trial import Trial
from research.contract.errors import UserError
from research.evaluation.score_tables import ALL, EQUAL_LENGTHS, Cell, credit
from research.files.existence import exists, files_in
from research.files.json_files import (
    NUMBER,
    check_object,
    digest,
    read_json,
    read_json_lines,
)
from research.metrics import HIGHER, LOWER

SCORES = "scores.jsonl"
NUMBER_OR_NULL = (*NUMBER, type(None))
REMEDY = "delete its folder and run palimpsest score again"


def score_folders(trial: Trial, task: str) -> dict[Path, Scoring]:
    """The folders that `palimpsest score --task=TASK` wrote for a finished run.

    The config of the run must be unchanged. Only scores of the checkpoint that opening
    the run loads count, not scores of other steps.
    """
    own = re.compile(rf"{re.escape(task)}-(.*)-{trial.opened_step}-([^-.]*)")
    folders = files_in(trial.folder / "evaluations", "")
    found = {folder: own.fullmatch(folder.name) for folder in folders}
    return {
        f: Scoring(*n.groups()) for f, n in found.items() if n and exists(f / SCORES)
    }


def score_folder(trial: Trial, task: str) -> tuple[Path, Scoring]:
    """The folder of a run's scores, which must have some.

    Raises:
      UserError: there are several folders, of other methods or other files.
    """
    first, *others = score_folders(trial, task).items()
    if others:
        names = ", ".join(folder.name for folder, _ in (first, *others))
        raise UserError(
            f"{trial.name} has several scores of {task}, by other methods or of other "
            f"files: {names}; keep the one to show in {first[0].parent}, and delete or "
            "move the others"
        )
    return first


def scoring(trial: Trial, task: str, equal_lengths: bool = False) -> Scoring | None:
    """How a run's scores were made; None: its objective gives none.

    Args:
      equal_lengths: as in `pairs`.
    """
    if not trial.gives_scores:
        return None
    folder, made = score_folder(trial, task)
    if not equal_lengths:
        return made
    try:
        different = [_lengths_differ(pair["scores"]) for pair in _read_pairs(folder)]
    except (KeyError, TypeError) as error:
        raise _damaged(folder, error) from error
    return made._replace(pairs=digest({"different": different}))


def is_scored(trial: Trial, task: str) -> bool:
    """Whether a trial has the scores of a task, or can have none."""
    return not trial.gives_scores or bool(score_folders(trial, task))


def pairs(trial: Trial, task: str, equal_lengths: bool = False) -> np.ndarray | None:
    """100 for each pair whose good sentence has the higher score, 50 for a tie.

    None: the objective gives no scores, or there are no such pairs.

    Args:
      equal_lengths: only of pairs whose sentences have equally many tokens.
    """
    if not trial.gives_scores:
        return None
    folder, _ = score_folder(trial, task)
    found = _read_pairs(folder)
    try:
        values = [
            100.0 * credit(_log_probs(p), p["gold"])
            for p in found
            if not (equal_lengths and _lengths_differ(p["scores"]))
        ]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, error) from error
    return None if found and not values else np.array(values)


def _read_pairs(folder: Path) -> list[dict[str, Any]]:
    return read_json_lines(folder / SCORES, {"scores": list, "gold": int})


def _damaged(folder: Path, error: Exception) -> UserError:
    return UserError(f"{folder / SCORES} is damaged ({error!r}); {REMEDY}")


def _log_probs(pair: Mapping[str, Any]) -> list[float]:
    """The scores of a pair's sentences.

    Raises:
      ValueError: they are not two finite numbers, or the good sentence has none.
    """
    values = [float(score["log_prob"]) for score in pair["scores"]]
    if len(values) != 2 or pair["gold"] not in (0, 1):
        raise ValueError("not the scores of a pair")
    if not np.isfinite(values).all():
        raise ValueError(f"a log_prob is not finite: {values}")
    return values


def _lengths_differ(scores: Sequence[Mapping[str, Any]]) -> bool:
    return len({score["num_tokens"] for score in scores}) > 1


def read_cell(trial: Trial, task: str, cell: str) -> Cell | None:
    """A cell of the row for all texts; None: no such cell."""
    if not trial.gives_scores:
        return None
    path = score_folder(trial, task)[0] / "table.json"
    try:
        rows = read_json(path, REMEDY, {"table": dict})["table"]
        check_object(rows, {ALL: dict})
        if cell not in rows[ALL]:
            return None
        check_object(rows[ALL], {cell: dict})
        check_object(rows[ALL][cell], dict.fromkeys(Cell._fields, NUMBER_OR_NULL))
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is damaged ({error}); {REMEDY}") from error
    numbers = (rows[ALL][cell][name] for name in Cell._fields)
    return Cell(*(math.nan if number is None else number for number in numbers))


def half_interval(trial: Trial, task: str, cell: str) -> float:
    """The margin of its interval; nan: unknown."""
    found = read_cell(trial, task, cell)
    return (found.high - found.low) / 2


def pair_column(name: str, task: str, equal_lengths: bool = False) -> Column:
    """The accuracy on a task's minimal pairs, in per cent; see `pairs`."""
    cell = EQUAL_LENGTHS if equal_lengths else "accuracy, sum"
    return Column(
        name,
        PRETRAINING,
        functools.partial(pairs, task=task, equal_lengths=equal_lengths),
        1,
        tested=True,
        ready=functools.partial(is_scored, task=task),
        margin=lambda trial: 100 * half_interval(trial, task, cell),
        least=0.0,
        most=100.0,
        scoring=functools.partial(scoring, task=task, equal_lengths=equal_lengths),
        scored_as=task,
    )


def bits_column(name: str, *cells: str) -> Column:
    """The column of bits over all texts of `palimpsest score --task=sentences`.

    Args:
      cells: names of cells in the table of scores. The column shows the first one that
        a run has, or a dash.
    """
    return _scored_column(name, "sentences", cells, 1, digits=3, better=LOWER)


def accuracy_column(name: str, task: str, cell: str) -> Column:
    """The column of a fraction in a task's table of scores, over all texts, in %."""
    return _scored_column(name, task, (cell,), 100, digits=1, better=HIGHER, most=100.0)


def _scored_column(
    name: str, task: str, cells: Sequence[str], scale: int, **shown: Any
) -> Column:
    def known(trial: Trial) -> tuple[float, float] | None:
        for cell in cells:
            found = read_cell(trial, task, cell)
            if found is not None and not math.isnan(found.value):
                return scale * found.value, scale * half_interval(trial, task, cell)
        return None

    def value(trial: Trial) -> float | None:
        found = known(trial)
        return found[0] if found else None

    def margin(trial: Trial) -> float:
        found = known(trial)
        return found[1] if found else math.nan

    return Column(
        name,
        PRETRAINING,
        value,
        ready=functools.partial(is_scored, task=task),
        margin=margin,
        least=0.0,
        scoring=functools.partial(scoring, task=task),
        scored_as=task,
        **shown,
    )


@dataclass(frozen=True)
class Columns(columns.Columns):
    """Runs whose objective gives no scores show a dash."""

    columns = (
        pair_column("BLiMP", "blimp"),
        pair_column("BLiMP, equal lengths", "blimp", True),
        pair_column("Zorro", "zorro"),
        pair_column("Zorro, equal lengths", "zorro", True),
        bits_column("bits a byte", "bits a byte"),
        bits_column("bits a byte, at most", "bits a byte", "bound on bits a byte"),
        bits_column("pseudo-bits a byte", "pseudo-bits a byte"),
        accuracy_column("LAMBADA (accuracy)", "lambada", "accuracy"),
        accuracy_column("LAMBADA (fill-in accuracy)", "lambada", "fill-in accuracy"),
    )
