"""One linear layer without a bias, so that a position without a vector adds nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax

from research.contract.batch import FEATURE
from research.networks.shared.dense import Dense
from research.networks.shared.options import Options
from research.networks.transformer import feature_layers


@dataclass(frozen=True)
class Projection(feature_layers.Projection):
    """An image region also reads one token, whose embedding serves as a bias.

    VisualBERT (Li et al. 2019, section 3.2) adds embeddings of features, segments and
    positions; ViT and ViLT have the linear projection of patches.
    """

    def project(
        self, feature_BLF: jax.Array, group: Mapping, options: Options, width: int
    ) -> jax.Array:
        axes = (None, "embed")
        return Dense(options, width, axes, bias=False, name=FEATURE)(feature_BLF)
