"""Colours and histograms of gradients of a patch's cells, then a linear layer.

Little is learned, for small sets of pictures.
"""

# B batch, L length, P side of a patch, G cells of a side, A angles

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from research.contract.batch import FEATURE
from research.contract.fields import number
from research.networks.shared.dense import Dense
from research.networks.shared.options import Options
from research.networks.transformer import feature_layers

ANGLES = 9


@dataclass(frozen=True)
class Projection(feature_layers.Projection):
    """Reads unscaled colours, and histograms scaled to a mean square of 1.

    A patch as large as the picture has weights for each cell; smaller ones share them.
    """

    colour_cells: int = number(12, least=1)  # for feature_layers=gradients: cells per
    # side of a patch over which colours are averaged
    gradient_cells: int = number(8, least=1)  # the same for histograms of gradients

    def project(
        self, feature_BLF: jax.Array, group: Mapping, options: Options, width: int
    ) -> jax.Array:
        x = feature_layers.square(feature_BLF, "gradients")
        fixed = features(x, self.colour_cells, self.gradient_cells)
        axes = (None, "embed")
        return Dense(options, width, axes, bias=False, name=FEATURE)(fixed)


def features(x: jax.Array, colour_cells: int, gradient_cells: int) -> jax.Array:
    """[..., 3 colour_cells^2 + A gradient_cells^2] of patches [..., P, P, 3]."""
    leading = x.shape[:-3]
    # Nothing before them is learned, and they have no derivative at uniform colours.
    counts = jax.lax.stop_gradient(histograms(x, gradient_cells))
    flat = [each.reshape(*leading, -1) for each in (pooled(x, colour_cells), counts)]
    return jnp.concatenate(flat, axis=-1)


def histograms(x: jax.Array, cells: int) -> jax.Array:
    """[..., G, G, A]: roots of histograms of gradients of patches [..., P, P, 3].

    The gradient of each pixel is that of the colour with the largest one; its length is
    shared between the two nearest angles (Dalal and Triggs 2005; theirs have
    overlapping blocks).
    """
    padding = [(0, 0)] * (x.ndim - 3) + [(1, 1), (1, 1), (0, 0)]
    edged = jnp.pad(x, padding, mode="edge")
    down = edged[..., 2:, 1:-1, :] - edged[..., :-2, 1:-1, :]
    right = edged[..., 1:-1, 2:, :] - edged[..., 1:-1, :-2, :]
    length = jnp.hypot(down, right)
    colour = length.argmax(axis=-1)[..., None]
    down, right, length = (
        jnp.take_along_axis(each, colour, axis=-1) for each in (down, right, length)
    )
    angle = jnp.arctan2(down, right) / jnp.pi * ANGLES
    each = jnp.expand_dims(jnp.arange(ANGLES), range(angle.ndim - 1))
    distance = jnp.abs((angle - each + ANGLES / 2) % ANGLES - ANGLES / 2)
    counts = pooled(length * jax.nn.relu(1 - distance), cells)
    mean = counts.mean(axis=(-3, -2, -1), keepdims=True)
    return jnp.sqrt(counts / jnp.maximum(mean, 1e-12))


def pooled(x: jax.Array, cells: int) -> jax.Array:
    """[..., G, G, C]: means of patches [..., P, P, C] over the cells of a grid.

    A pixel on the border of cells belongs to each in proportion.
    """
    side = x.shape[-2]
    edge = jnp.linspace(0, side, cells + 1)[:, None]
    pixel = jnp.arange(side)[None]
    overlap = jnp.minimum(edge[1:], pixel + 1) - jnp.maximum(edge[:-1], pixel)
    weight = jax.nn.relu(overlap) * cells / side
    return jnp.einsum("gp,hq,...pqc->...ghc", weight, weight, x)
