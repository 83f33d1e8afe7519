"""The accuracy of matching pictures and captions, from a pretraining's result."""

from dataclasses import dataclass

from launch.reports import columns
from launch.reports.columns import PRETRAINING
from launch.reports.tables import Column
from launch.sweeps.trial import Trial


def match_accuracy(trial: Trial) -> float | None:
    """Per cent of pairs of caption and picture; None: the run has no such metric."""
    fraction = trial.result["metrics"].get("valid/match_accuracy")
    return None if fraction is None else 100 * fraction


@dataclass(frozen=True)
class Columns(columns.Columns):
    """It is exact; chance is 50."""

    columns = (
        Column("pairs told apart", PRETRAINING, match_accuracy, tested=True, most=100),
    )
