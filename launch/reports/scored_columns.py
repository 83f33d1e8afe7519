"""Columns from the scores that `launch.score` wrote for pretrained networks."""

import functools
import json
from pathlib import Path

import numpy as np

from launch.reports.result_columns import PRETRAINING
from launch.reports.tables import Column
from launch.sweeps.trial import Trial
from research.evaluation.score_tables import credit


def score_folders(trial: Trial, task: str) -> list[Path]:
    """The folders that `launch.score --task=TASK` wrote for a run with its unchanged
    config, sorted by step."""
    files = trial.folder.glob(f"evaluations/{task}-*/scores.jsonl")
    folders = [file.parent for file in files]
    own = (f for f in folders if "." not in f.name.rpartition("-")[2])
    return sorted(own, key=lambda folder: int(folder.name.split("-")[-2]))


def is_scored(trial: Trial, task: str) -> bool:
    return bool(score_folders(trial, task)) or not trial.gives_scores


def blimp(trial: Trial) -> np.ndarray | None:
    """100 for each pair whose good sentence has the higher score, 50 for a tie."""
    if not trial.gives_scores:
        return None
    scores = score_folders(trial, "blimp")[-1] / "scores.jsonl"
    pairs = map(json.loads, scores.read_text().splitlines())
    return np.array(
        [
            100.0 * credit([each["log_prob"] for each in pair["scores"]], pair["gold"])
            for pair in pairs
        ]
    )


def read_cell(trial: Trial, task: str, cell: str) -> dict[str, float] | None:
    """A cell of the row for all texts: `value`, `low`, `high`; None: no such cell."""
    if not trial.gives_scores:
        return None
    table = json.loads((score_folders(trial, task)[-1] / "table.json").read_text())
    return table["table"]["all"].get(cell)


def half_interval(trial: Trial, task: str, cell: str) -> float:
    found = read_cell(trial, task, cell)
    return (found["high"] - found["low"]) / 2


BLIMP = Column(
    "BLiMP",
    PRETRAINING,
    blimp,
    1,
    tested=True,
    ready=functools.partial(is_scored, task="blimp"),
    margin=lambda trial: 100 * half_interval(trial, "blimp", "accuracy, sum"),
)


def scored_column(name: str, task: str, cell: str, percent: bool = False) -> Column:
    """The column of a cell of the row for all texts.

    Args:
      task: a task of `launch.score`.
      cell: a cell of its table, as in "perplexity a word"; runs without it show a dash.
      percent: the value is a fraction, to be shown in per cent.
    """
    scale = 100 if percent else 1

    def value(trial: Trial) -> float | None:
        found = read_cell(trial, task, cell)
        return found and scale * found["value"]

    def margin(trial: Trial) -> float:
        return scale * half_interval(trial, task, cell)

    ready = functools.partial(is_scored, task=task)
    return Column(name, PRETRAINING, value, 1, ready=ready, margin=margin)


SCORED = (
    BLIMP,
    scored_column("LAMBADA (accuracy)", "lambada", "accuracy", percent=True),
    scored_column(
        "LAMBADA (fill-in accuracy)", "lambada", "fill-in accuracy", percent=True
    ),
    *(
        scored_column(f"WikiText-2 ({cell})", "sentences", cell)
        for cell in ("perplexity a word", "pseudo-perplexity a word")
    ),
)
"""The columns that the tables of experiments/tables show."""
