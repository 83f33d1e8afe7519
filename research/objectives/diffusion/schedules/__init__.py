"""Schedules of masked diffusion: the mask rate at time t and the weight of the loss.

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
    """The base of all schedules: frozen dataclasses of numbers and strings."""

    rate_is_time: ClassVar[bool] = False
    """Whether the rate at t is t, as exact counts and scaled rates assume."""

    @abc.abstractmethod
    def noise(self, t: np.ndarray, key: np.ndarray) -> Noise:
        """Rates 1 - alpha(t) and weights |alpha'(t)| / (1 - alpha(t)) at t [B, N].

        Args:
          key: [B], one per row, for random draws.
        """
