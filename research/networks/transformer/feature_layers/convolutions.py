"""Convolutions over the pixels of a square patch, then a linear layer."""

# B batch, L length, P side of a patch, S side of a map, C channels

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from research.contract.batch import FEATURE
from research.contract.fields import number
from research.networks.shared.dense import Dense, Norm
from research.networks.shared.options import Options
from research.networks.transformer import feature_layers


@dataclass(frozen=True)
class Projection(feature_layers.Projection):
    """Convolutions of 3 x 3 with stride 2, each with a norm of channels and relu.

    The last one has as many channels as the embedding is wide, each other one half of
    the next (early convolutions instead of a patch's linear layer, Xiao et al. 2021;
    theirs run over the whole image, with batch norm).
    """

    convolutions: int = number(3, least=1)  # for feature_layers=convolutions: number of
    # layers, each of which halves the side of a patch

    def project(
        self, feature_BLF: jax.Array, group: Mapping, options: Options, width: int
    ) -> jax.Array:
        x = feature_layers.square(feature_BLF, "convolutions")
        for n in range(self.convolutions):
            channels = max(1, width // 2 ** (self.convolutions - 1 - n))
            dense = Dense(
                options, channels, (None, None), bias=False, name=f"convolution_{n}"
            )
            norm = Norm(options, axis=None, name=f"convolution_norm_{n}")
            x = jax.nn.relu(norm(dense(windows(x))))
        axes = (None, "embed")
        dense = Dense(options, width, axes, bias=False, name=FEATURE)
        y = dense(x.reshape(*feature_BLF.shape[:-1], -1))
        has_vector = jnp.any(feature_BLF != 0, axis=-1, keepdims=True)
        return jnp.where(has_vector, y, jnp.zeros_like(y))


def windows(x: jax.Array) -> jax.Array:
    """[..., ceil(S / 2), ceil(S / 2), 9 C]: the windows of maps [..., S, S, C].

    A window is 3 x 3 pixels around every other pixel; pixels beyond the map are 0.
    """
    side = x.shape[-3]
    padding = [(0, 0)] * (x.ndim - 3) + [(1, 1), (1, 1), (0, 0)]
    padded = jnp.pad(x, padding)
    shifted = [
        padded[..., row : row + side : 2, column : column + side : 2, :]
        for row in range(3)
        for column in range(3)
    ]
    return jnp.concatenate(shifted, axis=-1)
