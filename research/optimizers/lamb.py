"""LAMB (You et al. 2020): AdamW's updates, each as long as its parameter."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from research.optimizers.shared.adam_moments import AdamMoments
from research.optimizers.shared.by_matrix import by_matrix, rms
from research.optimizers.shared.weight_decay import WeightDecay


@dataclasses.dataclass(frozen=True)
class Optimizer(AdamMoments, WeightDecay):
    def transforms(self) -> list[optax.GradientTransformation]:
        trust_ratio = optax.stateless(self._scale_by_trust_ratio)
        return [self.scale_by_adam(), self.add_decay(), trust_ratio]

    def _scale_by_trust_ratio(self, updates: Any, params: Any) -> Any:
        """Updates, each as long as its parameter.

        Parameters that do not decay keep Adam's updates, as in ALBERT's released code.
        """

        def scale(update, param):
            ratio = rms(param) / jnp.where(rms(update) > 0, rms(update), 1.0)
            has_ratio = (rms(param) > 0) & (rms(update) > 0)
            return update * jnp.where(has_ratio, ratio, 1.0)

        return jax.tree.map(
            lambda is_scaled, scaled, update: scaled if is_scaled else update,
            self.decayed(params),
            by_matrix(scale, updates, params),
            updates,
        )
