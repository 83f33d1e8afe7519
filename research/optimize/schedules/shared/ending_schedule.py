"""Schedules that end with the run, after an optional stable phase."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax

from research.contract.errors import UserError
from research.contract.fields import fraction, number


@dataclasses.dataclass(frozen=True)
class EndingSchedule:
    """A schedule that ends with the run; a subclass says how it falls from the peak.

    With decay_fraction below 1 the rate stays at its peak until that fraction of steps
    remains (Hu et al. 2024, MiniCPM, section 4.1: warm-up, stable, decay).
    """

    decay_fraction: float = number(1.0, above=0, most=1)  # of the steps after the
    # origin of the decay: the last part, in which the rate decays; 1: all
    final_fraction: float = fraction(0.0)  # of the peak, at which the decay ends
    cooldown_steps: int = number(0, least=0)  # last steps, in which the rate falls
    # linearly from final_fraction of the peak to 0 after the decay (LTG-BERT, GPT-BERT)

    def decay(self, shared: Any, steps: int) -> optax.Schedule:
        decay_steps = max(1, round(self.decay_fraction * steps))
        stable_steps = steps - decay_steps
        fall = self.fall(shared.learning_rate, decay_steps)
        if not (stable_steps or self.cooldown_steps):
            return fall
        begin = steps - self.cooldown_steps
        if begin <= 0:
            raise UserError(
                f"optimizer.cooldown_steps={self.cooldown_steps} leaves nothing of the "
                f"{steps} steps after the warm-up; make it smaller"
            )
        floor = shared.learning_rate * self.final_fraction
        cooldown = optax.linear_schedule(floor, 0.0, self.cooldown_steps)

        def decayed(count: Any) -> Any:
            return fall(jnp.maximum(count - stable_steps, 0))

        if not self.cooldown_steps:
            return decayed
        return optax.join_schedules([decayed, cooldown], [begin])

    def fall(self, peak: float, steps: int) -> optax.Schedule:
        """The rate by step, from the peak at step 0.

        It is final_fraction of the peak at `steps` and after.
        """
        raise NotImplementedError
