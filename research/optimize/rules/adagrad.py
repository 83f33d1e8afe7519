"""AdaGrad (Duchi et al. 2011): gradients over the root of the sum of their squares."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from research.contract.fields import choice, number
from research.optimize import rules


class State(NamedTuple):
    sums: optax.Updates  # initial_sum + the squares of the gradients so far


@dataclasses.dataclass(frozen=True)
class Optimizer(rules.Rule):
    initial_sum: float = number(0.0, least=0)  # of squares, before the first step
    sum_includes: str = choice("step", ("step", "past"))  # the sum that divides a
    # step's gradient; past: that before the step (GloVe's code), initially above 0
    epsilon: float = number(1e-6, least=0)  # added to the root

    def __post_init__(self) -> None:
        if self.sum_includes == "past" and not self.initial_sum:
            raise ValueError(
                "optimizer.sum_includes past needs optimizer.initial_sum above 0"
            )

    def transforms(self) -> list[optax.GradientTransformation]:
        def init(params: optax.Params) -> State:
            return State(
                jax.tree.map(lambda x: jnp.full_like(x, self.initial_sum), params)
            )

        def update(
            grads: optax.Updates, state: State, params: optax.Params | None = None
        ) -> tuple[optax.Updates, State]:
            del params
            squared = jax.tree.map(lambda s, g: s + (g) ** 2, state.sums, grads)
            sums = squared if self.sum_includes == "step" else state.sums
            updates = jax.tree.map(self._scaled, grads, sums)
            return updates, State(squared)

        return [optax.GradientTransformation(init, update)]

    def _scaled(self, grad: jax.Array, total: jax.Array) -> jax.Array:
        """The gradient over the root of its sum; 0 if that is 0."""
        is_zero = total == 0
        root = jnp.sqrt(jnp.where(is_zero, 1.0, total)) + self.epsilon
        return jnp.where(is_zero, 0.0, grad / root)
