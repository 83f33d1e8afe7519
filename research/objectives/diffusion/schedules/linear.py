"""alpha(t) = 1 - t: the rate is t (Sahoo et al. 2024)."""

from dataclasses import dataclass

import numpy as np

from research.objectives.diffusion import schedules
from research.objectives.diffusion.noise import Noise


@dataclass(frozen=True)
class Schedule(schedules.Schedule):
    rate_is_time = True

    def noise(self, t: np.ndarray, key: np.ndarray) -> Noise:
        return Noise(t, 1 / t)
