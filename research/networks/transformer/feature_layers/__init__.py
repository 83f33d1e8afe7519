"""Layers of features: from a position's vector, such as a patch's, to an embedding.

A module here defines a frozen dataclass `Projection(feature_layers.Projection)`. It is
found by listing the folder: its name is a value of model.feature_layers, and its fields
are keys of transformers.
"""

# B batch, L length, E embedding width, F width of given vectors
# P side of a patch

import abc
import math
from collections.abc import Mapping

import jax

from research.contract.errors import UserError
from research.contract.parts import Folder
from research.networks.shared.options import Options

FOLDER = Folder(
    "research.networks.transformer.feature_layers",
    "Projection",
    named_by="model.feature_layers",
)


class Projection(abc.ABC):
    """The base of all projections."""

    @abc.abstractmethod
    def project(
        self, feature_BLF: jax.Array, group: Mapping, options: Options, width: int
    ) -> jax.Array:
        """[B, L, E], which is added to the embedding of each position by itself.

        It is 0 where a vector is 0: that position has none. The layers are those of
        `shared.dense`, made where they are called, as in a compact method of Flax; each
        has its own name, which its parameters have below `embeddings`.

        Args:
          group: the arrays [B, L] of the input, such as token_type.
          options: of the network, for its layers.
          width: E.

        Raises:
          UserError: the layers cannot read F values.
        """


def square(feature_BLF: jax.Array, name: str) -> jax.Array:
    """[B, L, P, P, 3]: the pixels of square patches.

    Args:
      name: the value of model.feature_layers, for errors.

    Raises:
      UserError: F is not 3 P^2.
    """
    *leading, size = feature_BLF.shape
    side = math.isqrt(size // 3)
    if 3 * side**2 != size:
        raise UserError(
            f"model.feature_layers={name} reads square patches of pixels, of "
            f"3 x P x P values; these vectors have {size}"
        )
    return feature_BLF.reshape(*leading, side, side, 3)
