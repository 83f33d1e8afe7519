"""A decay by a power of the fraction of steps that remain."""

import dataclasses

import optax

from research.contract.fields import number
from research.optimize.schedules.shared.ending_schedule import EndingSchedule


@dataclasses.dataclass(frozen=True)
class Schedule(EndingSchedule):
    power: float = number(1.0, above=0)

    def fall(self, peak: float, steps: int) -> optax.Schedule:
        end = peak * self.final_fraction
        return optax.polynomial_schedule(peak, end, self.power, steps)
