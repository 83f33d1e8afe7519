"""Stochastic gradient descent with momentum."""

import dataclasses

import optax

from research.fields import number


@dataclasses.dataclass(frozen=True)
class Optimizer:
    beta1: float = number(0.9, least=0, below=1)  # factor of the sum of earlier
    # gradients; 0: no momentum

    def transforms(self) -> list[optax.GradientTransformation]:
        return [optax.trace(self.beta1)]
