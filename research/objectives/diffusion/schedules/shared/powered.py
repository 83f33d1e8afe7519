"""Weights with a power of alpha's slope.

The formula is that of the code of Kosmopoulou et al. 2025
(DespoinaKK/babylm-diffusion, noise_schedules.py).
"""

# B batch, N blocks of a row

from dataclasses import dataclass

import numpy as np

from research.contract.fields import fraction
from research.objectives.diffusion import schedules
from research.objectives.diffusion.noise import Noise


@dataclass(frozen=True)
class Powered(schedules.Schedule):
    derivative_power: float = fraction(1.0)  # exponent of |d alpha / dt| in the
    # weights; below 1 the loss is not a bound

    def of_slope(self, rate: np.ndarray, slope: np.ndarray) -> Noise:
        """Noise of rates and |alpha'(t)|, each [B, N]."""
        return Noise(rate, slope**self.derivative_power / (rate + 1e-8))
