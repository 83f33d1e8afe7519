"""Stochastic gradient descent with momentum."""

import dataclasses
from typing import Any

import jax
import optax

from research.contract.fields import number
from research.optimize import rules
from research.optimize.rules.shared.weight_decay import decayed_params


@dataclasses.dataclass(frozen=True)
class Optimizer(rules.Rule):
    beta1: float = number(0.9, least=0, below=1)  # factor of the sum of earlier
    # gradients; 0: no momentum
    l2_penalty: float = number(0.0, least=0)  # times the parameters (all tables,
    # kernels and biases), added to the gradient after clipping

    def transforms(self) -> list[optax.GradientTransformation]:
        decay = optax.stateless(self._add_penalty)
        return [*([decay] if self.l2_penalty else []), optax.trace(self.beta1)]

    def _add_penalty(self, updates: Any, params: Any) -> Any:
        def add(decays: bool, update: jax.Array, param: jax.Array) -> jax.Array:
            return update + self.l2_penalty * param if decays else update

        return jax.tree.map(add, decayed_params(params, "all"), updates, params)
