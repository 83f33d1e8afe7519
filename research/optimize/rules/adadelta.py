"""Adadelta (Zeiler 2012): steps in the units of the parameters.

A step is RMS(earlier steps) / RMS(gradients) x gradient, by moving averages of squares
(algorithm 1), times the learning rate, which the paper does not have: 1.
"""

import dataclasses

import optax

from research.contract.fields import number
from research.optimize import rules


@dataclasses.dataclass(frozen=True)
class Optimizer(rules.Rule):
    decay: float = number(0.95, least=0, below=1)  # of both moving averages
    epsilon: float = number(1e-6, above=0)  # added to both, under the roots

    def transforms(self) -> list[optax.GradientTransformation]:
        return [optax.scale_by_adadelta(self.decay, self.epsilon)]
