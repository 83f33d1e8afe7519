"""Stochastic gradient descent with momentum."""

import dataclasses

import optax

from research.fields import number


@dataclasses.dataclass(frozen=True)
class Optimizer:
    beta1: float = number(0.9, least=0, below=1)  # factor of the sum of earlier
    # gradients; 0: no momentum
    l2_penalty: float = number(0.0, least=0)  # added to the gradient after clipping,
    # times the parameters: those of all tables, kernels and biases

    def transforms(self) -> list[optax.GradientTransformation]:
        decay = optax.add_decayed_weights(self.l2_penalty)
        return [*([decay] if self.l2_penalty else []), optax.trace(self.beta1)]
