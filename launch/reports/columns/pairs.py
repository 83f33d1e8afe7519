"""Accuracies of pictures beside captions, from a pretraining's result."""

import functools
from dataclasses import dataclass

from launch.reports import columns
from launch.reports.columns import PRETRAINING
from launch.reports.tables import Column
from launch.sweeps.trial import Trial


def accuracy(term: str, trial: Trial) -> float | None:
    """The accuracy of a term's predictions in per cent; None: no such term."""
    fraction = trial.result["metrics"].get(f"valid/{term}_accuracy")
    return None if fraction is None else 100 * fraction


@dataclass(frozen=True)
class Columns(columns.Columns):
    """Two columns of exact values.

    Pairs of caption and picture: chance tells 50 % of them apart. Classes of chosen
    regions: the network may see some of these regions (objective.region_mask_fraction).
    """

    columns = (
        Column(
            "pairs told apart",
            PRETRAINING,
            functools.partial(accuracy, "match"),
            tested=True,
            most=100,
        ),
        Column(
            "classes of regions",
            PRETRAINING,
            functools.partial(accuracy, "region"),
            tested=True,
            most=100,
        ),
    )
