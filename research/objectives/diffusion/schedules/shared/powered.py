"""Weights with a power of the slope (DespoinaKK/babylm-diffusion, noise_schedules.py).

The code is that of Kosmopoulou et al. 2025.
"""

# B batch, N blocks of a row

from dataclasses import dataclass

import numpy as np

from research.contract.fields import fraction
from research.objectives.diffusion import schedules
from research.objectives.diffusion.noise import Noise


@dataclass(frozen=True)
class Powered(schedules.Schedule):
    derivative_power: float = fraction(1.0)  # of |d alpha / dt| in the weights; below 1
    # the loss is no bound

    def of_slope(self, rate: np.ndarray, slope: np.ndarray) -> Noise:
        """Noise of rates and |alpha'(t)|, each [B, N]."""
        return Noise(rate, slope**self.derivative_power / (rate + 1e-8))
