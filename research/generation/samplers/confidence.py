"""Sampling of masked diffusion by confidence: the most probable tokens first.

Each step fills an equal number of masks, those whose drawn tokens are most probable;
the others stay masks (ML-GSAI/LLaDA, generate.py, low-confidence remasking; Chang et
al. 2022, MaskGIT).
"""

# B batch, S positions of a block

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from research.contract.fields import described, number
from research.generation.samplers.shared.unmasking import Unmasking


@dataclass(frozen=True, kw_only=True)
class Sampler(Unmasking):
    """A step writes n / steps of n masks, the first steps one more.

    LLaDA's code has temperature 0.
    """

    steps: int = described(
        "steps in which all masks are written; 0: one mask a step", number(0, least=0)
    )

    def num_steps(self, size: int, fraction: float) -> int:
        steps = max(1, round(self.steps * fraction))
        return min(size, steps) if self.steps else size

    def plan(self, masked_BS: jax.Array, draw_BS: jax.Array, num_steps: int) -> Any:
        return masked_BS.sum(axis=1), num_steps

    def due(
        self, plan: Any, step: jax.Array, masked_BS: jax.Array, log_p_BS: jax.Array
    ) -> jax.Array:
        num_masks_B, num_steps = plan
        count_B = num_masks_B // num_steps + (step < num_masks_B % num_steps)
        score_BS = jnp.where(masked_BS, log_p_BS, -jnp.inf)
        rank_BS = jnp.argsort(jnp.argsort(-score_BS, axis=1), axis=1)
        return rank_BS < count_B[:, None]
