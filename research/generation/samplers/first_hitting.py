"""First-hitting sampling of masked diffusion: one random mask after another.

It equals the limit of ancestral sampling with many steps, in one step per mask (Zheng
et al. 2024, section 4; kuleshov-group/bd3lms, diffusion.py, first_hitting).
"""

# B batch, S positions of a block

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from research.generation.samplers.shared.unmasking import Unmasking


@dataclass(frozen=True, kw_only=True)
class Sampler(Unmasking):
    """All orders of the masks of a block are equally likely."""

    reads_log_p = False

    def num_steps(self, size: int, fraction: float) -> int:
        return size

    def plan(self, masked_BS: jax.Array, draw_BS: jax.Array, num_steps: int) -> Any:
        last = jnp.where(masked_BS, draw_BS, 2.0)
        return jnp.argsort(jnp.argsort(last, axis=1), axis=1)

    def due(
        self, plan: Any, step: jax.Array, masked_BS: jax.Array, log_p_BS: jax.Array
    ) -> jax.Array:
        return plan == step
