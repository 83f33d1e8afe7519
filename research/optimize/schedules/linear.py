"""A linear decay: by the same amount in each step."""

import dataclasses

import optax

from research.optimize.schedules.shared.ending_schedule import EndingSchedule


@dataclasses.dataclass(frozen=True)
class Schedule(EndingSchedule):
    def fall(self, peak: float, steps: int) -> optax.Schedule:
        return optax.linear_schedule(peak, peak * self.final_fraction, steps)
