"""A decay by the inverse square root of the step.

The rate is peak x sqrt(warmup_steps / step); with a constant warm-up of 10,000 steps
and a peak of 0.01 that is T5's 1 / sqrt(max(step, 10,000)) (Raffel et al. 2020, section
3.1.2).
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax


@dataclasses.dataclass(frozen=True)
class Schedule:
    def decay(self, shared: Any, steps: int) -> optax.Schedule:
        start = max(shared.warmup_steps, 1)

        def rate(count: Any) -> Any:
            if shared.decay_from == "start":
                after = jnp.maximum(count, start)
            else:
                after = start + jnp.maximum(count, 0)
            return shared.learning_rate * (start / after) ** 0.5

        return rate
