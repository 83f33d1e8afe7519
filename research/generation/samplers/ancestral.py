"""Ancestral sampling of masked diffusion: masks are filled at random times."""

# B batch, S positions of a block

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from research.contract.fields import described, number
from research.generation.samplers.shared.unmasking import Unmasking


@dataclass(frozen=True, kw_only=True)
class Sampler(Unmasking):
    """In the step from time t to s each mask is written with probability (t - s) / t.

    The times of all masks are drawn first, since they are independent of the text; a
    step without any needs no network (kuleshov-group/mdlm, diffusion.py,
    _ddpm_caching_update, keeps the last probabilities there).
    """

    serves = 2

    steps: int = described(
        "steps of time in which all masks are written", number(128, least=1)
    )

    reads_log_p = False

    def num_steps(self, size: int, fraction: float) -> int:
        return max(1, round(self.steps * fraction))

    def plan(self, masked_BS: jax.Array, draw_BS: jax.Array, num_steps: int) -> Any:
        return (draw_BS * num_steps).astype(jnp.int32)

    def due(
        self, plan: Any, step: jax.Array, masked_BS: jax.Array, log_p_BS: jax.Array
    ) -> jax.Array:
        return plan == step
