"""No decay: the rate stays at its peak."""

import dataclasses
from typing import Any

import optax


@dataclasses.dataclass(frozen=True)
class Schedule:
    def decay(self, shared: Any, steps: int) -> optax.Schedule:
        return optax.constant_schedule(shared.learning_rate)
