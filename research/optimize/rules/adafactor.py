"""Adafactor (Shazeer and Stern 2018, algorithm 5), with T5's settings."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import optax

from research.optimize import rules
from research.optimize.rules.shared.by_matrix import by_matrix, rms
from research.optimize.rules.shared.weight_decay import WeightDecay


@dataclasses.dataclass(frozen=True)
class Optimizer(WeightDecay, rules.Rule):
    """The second moment has decay 1 - t^-0.8; there is no first moment.

    It is factored if both dims are at least 128. Updates are clipped to a root mean
    square (RMS) of 1 and multiplied by the RMS of the parameter, at least 0.001.
    """

    def transforms(self) -> list[optax.GradientTransformation]:
        return [
            optax.scale_by_factored_rms(),
            optax.stateless(_clip),
            optax.stateless(_scale_by_param),
            self.add_decay(),
        ]


def _clip(updates: Any, params: Any) -> Any:
    return by_matrix(lambda u: u / jnp.maximum(1.0, rms(u)), updates)


def _scale_by_param(updates: Any, params: Any) -> Any:
    return by_matrix(lambda u, p: u * jnp.maximum(rms(p), 1e-3), updates, params)
