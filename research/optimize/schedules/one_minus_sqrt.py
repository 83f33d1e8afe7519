"""A decay by the square root of the fraction of its steps that are done.

Hägele et al. 2024, arXiv:2405.18392, the cooldown "1-sqrt": with a decay_fraction of
0.2, for example, the rate first stays at its peak (epfml/schedules-and-scaling,
src/optim/utils.py, wsd_schedule with decay_type "sqrt").
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax

from research.optimize.schedules.shared.ending_schedule import EndingSchedule


@dataclasses.dataclass(frozen=True)
class Schedule(EndingSchedule):
    def fall(self, peak: float, steps: int) -> optax.Schedule:
        end = peak * self.final_fraction

        def rate(count: Any) -> Any:
            done = jnp.minimum(count, steps) / steps
            return end + (peak - end) * (1 - jnp.sqrt(done))

        return rate
