"""Schedules of masked diffusion: how often a token is masked at a time, and its weight.

A module here defines a frozen dataclass `Schedule(schedules.Schedule)`. It is found by
listing the folder; its name is a value of objective.schedule, and its fields are keys
of `masked_diffusion`.
"""

# B batch, N blocks of a row

import abc
from typing import ClassVar

import numpy as np

from research.contract.parts import Folder
from research.objectives.diffusion.noise import Noise

FOLDER = Folder(
    "research.objectives.diffusion.schedules",
    "Schedule",
    named_by="objective.schedule",
)


class Schedule(abc.ABC):
    """The base of all schedules: frozen dataclasses of plain numbers and words."""

    rate_is_time: ClassVar[bool] = False
    """Whether the rate at t is t, as exact counts and scaled rates take it."""

    @abc.abstractmethod
    def noise(self, t: np.ndarray, key: np.ndarray) -> Noise:
        """Rates 1 - alpha(t) and weights |alpha'(t)| / (1 - alpha(t)) at t [B, N].

        Args:
          key: [B], of the rows, for what a row draws.
        """
