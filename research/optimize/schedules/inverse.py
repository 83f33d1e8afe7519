"""A decay by the inverse of the step: peak / (1 + step_decay x step ** step_power).

Stochastic gradient descent of Bengio et al. 2003, section 3.1, has 1e-8 per prediction;
CVT has 0.005 x sqrt(step) (Clark et al. 2018; tensorflow/models, research/cvt_text,
model/multitask_model.py).
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax

from research.contract.fields import number


@dataclasses.dataclass(frozen=True)
class Schedule:
    step_decay: float = number(1e-4, least=0)  # factor of step ** step_power
    step_power: float = number(1.0, above=0, most=1)  # exponent; 0.5: square root

    def decay(self, shared: Any, steps: int) -> optax.Schedule:
        def rate(count: Any) -> Any:
            after = jnp.maximum(count, 0)
            if self.step_power != 1:
                after = jnp.power(after.astype(jnp.float32), self.step_power)
            return shared.learning_rate / (1 + self.step_decay * after)

        return rate
