"""StableAdamW (Wortsman et al. 2023, algorithm 2): AdamW that clips its updates."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from research.optimize import rules
from research.optimize.rules.shared.adam_moments import AdamMoments
from research.optimize.rules.shared.by_matrix import by_matrix, rms
from research.optimize.rules.shared.weight_decay import WeightDecay


@dataclasses.dataclass(frozen=True)
class Optimizer(AdamMoments, WeightDecay, rules.Rule):
    """AdamW with a lower rate where the second moment lags behind the gradient.

    The rate of each matrix or vector, including weight decay, is divided by max(1, rms
    of g / max(sqrt(v), epsilon)), with bias-corrected v. A stack has a factor per
    layer. This replaces clipping by norm (optimizer.clip_norm=0).
    """

    step_is_rate = True

    def transforms(self) -> list[optax.GradientTransformation]:
        adamw = optax.chain(self.scale_by_adam(), self.add_decay())

        def clip(update: jax.Array, grad: jax.Array, moment: jax.Array) -> jax.Array:
            ratio = grad / jnp.maximum(jnp.sqrt(moment), self.epsilon)
            return update / jnp.maximum(1.0, rms(ratio))

        def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            updates, state = adamw.update(grads, state, params)
            adam = state[0]
            moment = adam.nu
            if self.bias_correction:
                moment = optax.tree.bias_correction(moment, self.beta2, adam.count)
            return by_matrix(clip, updates, grads, moment), state

        return [optax.GradientTransformation(adamw.init, update)]
