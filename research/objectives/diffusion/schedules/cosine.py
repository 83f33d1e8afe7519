"""alpha(t) = cos(pi / 2 (1 - t)): the mean rate is 1 - 2 / pi.

As in DespoinaKK/babylm-diffusion, noise_schedules.py, _cosine_linear_schedule.
"""

from dataclasses import dataclass

import numpy as np

from research.objectives.diffusion.noise import Noise
from research.objectives.diffusion.schedules.shared import powered


@dataclass(frozen=True)
class Schedule(powered.Powered):
    def noise(self, t: np.ndarray, key: np.ndarray) -> Noise:
        angle = np.pi / 2 * (1 - t)
        return self.of_slope(1 - np.cos(angle), np.pi / 2 * np.sin(angle))
