"""LAMB (You et al. 2020): AdamW's updates, scaled to the norm of their parameter."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from research.contract.fields import choice
from research.optimize import rules
from research.optimize.rules.shared.adam_moments import AdamMoments
from research.optimize.rules.shared.by_matrix import by_matrix, rms
from research.optimize.rules.shared.weight_decay import WeightDecay


@dataclasses.dataclass(frozen=True)
class Optimizer(AdamMoments, WeightDecay, rules.Rule):
    trust_ratio: str = choice("decayed", ("decayed", "all"))  # parameters whose updates
    # are scaled to their norm; decayed: those that decay (ALBERT's released code); all:
    # also biases and norms (ymcui/LAMB_Optimizer_TF)

    def transforms(self) -> list[optax.GradientTransformation]:
        trust_ratio = optax.stateless(self._scale_by_trust_ratio)
        return [self.scale_by_adam(), self.add_decay(), trust_ratio]

    def _scale_by_trust_ratio(self, updates: Any, params: Any) -> Any:
        """Scales updates to the norms of their parameters; others stay Adam's."""

        def scale(update: jax.Array, param: jax.Array) -> jax.Array:
            ratio = rms(param) / jnp.where(rms(update) > 0, rms(update), 1.0)
            has_ratio = (rms(param) > 0) & (rms(update) > 0)
            return update * jnp.where(has_ratio, ratio, 1.0)

        every = by_matrix(scale, updates, params)
        if self.trust_ratio == "all":
            return every
        return jax.tree.map(
            lambda is_scaled, scaled, update: scaled if is_scaled else update,
            self.decayed(params),
            every,
            updates,
        )
