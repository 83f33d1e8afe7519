"""A decay by half a period of a cosine (Loshchilov and Hutter 2017, no restarts)."""

import dataclasses

import optax

from research.optimize.schedules.shared.ending_schedule import EndingSchedule


@dataclasses.dataclass(frozen=True)
class Schedule(EndingSchedule):
    def fall(self, peak: float, steps: int) -> optax.Schedule:
        return optax.cosine_decay_schedule(peak, steps, self.final_fraction)
