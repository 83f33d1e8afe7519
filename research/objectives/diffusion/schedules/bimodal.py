"""Rates from one of two normal distributions per row: alpha is its quantile at t.

As in DespoinaKK/babylm-diffusion, noise_schedules.py, _bimodal_gaussian_schedule.
"""

from dataclasses import dataclass

import numpy as np

from research.contract.fields import fraction, number
from research.data import counter_rng
from research.objectives.diffusion.noise import Noise
from research.objectives.diffusion.schedules.shared import powered


@dataclass(frozen=True)
class Schedule(powered.Powered):
    low_fraction: float = fraction(0.6)  # fraction of rows with the lower mode
    low_mean: float = fraction(0.12)  # mean rate of the lower mode
    low_std: float = number(0.02, above=0)  # standard deviation of the lower mode
    high_mean: float = fraction(0.85)  # mean rate of the upper mode
    high_std: float = number(0.08, above=0)  # standard deviation of the upper mode

    def noise(self, t: np.ndarray, key: np.ndarray) -> Noise:
        from scipy import special  # imported when needed: it takes a second

        is_low = counter_rng.uniform(key, "mode", 1) < self.low_fraction
        mean = np.where(is_low, self.low_mean, self.high_mean)
        std = np.where(is_low, self.low_std, self.high_std)
        z = special.ndtri(np.clip(t, 1e-8, 1 - 1e-8))
        rate = np.clip(mean - std * z, 1e-8, 1 - 1e-8)
        return self.of_slope(rate, std * np.sqrt(2 * np.pi) * np.exp(z**2 / 2))
