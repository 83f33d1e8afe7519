"""A decay by the inverse of the step: peak / (1 + step_decay x step).

Stochastic gradient descent of Bengio et al. 2003, section 3.1, has 1e-8 a prediction.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax

from research.fields import number


@dataclasses.dataclass(frozen=True)
class Schedule:
    step_decay: float = number(1e-4, least=0)  # by which the divisor grows each step

    def decay(self, shared: Any, steps: int) -> optax.Schedule:
        def rate(count: Any) -> Any:
            after = jnp.maximum(count, 0)
            return shared.learning_rate / (1 + self.step_decay * after)

        return rate
