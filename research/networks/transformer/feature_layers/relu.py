"""A linear layer, relu and a norm for each of texts and pictures (VL-BERT, Su 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from research.contract.batch import FEATURE
from research.networks.shared.dense import Dense, Norm
from research.networks.shared.options import Options
from research.networks.transformer import feature_layers


@dataclass(frozen=True)
class Projection(feature_layers.Projection):
    """The norms' scale is initially 0: the network starts as if without vectors.

    Texts (token type 0) have one norm and images another (Su et al. 2020;
    jackroos/VL-BERT at 4373674, common/visual_linguistic_bert.py).
    """

    def project(
        self, feature_BLF: jax.Array, group: Mapping, options: Options, width: int
    ) -> jax.Array:
        axes = (None, "embed")
        dense = Dense(options, width, axes, bias=True, name=FEATURE)
        y = jax.nn.relu(dense(feature_BLF))
        text, image = (
            Norm(options, scaled=True, initial_scale=0.0, name=name)(y)
            for name in ("text_feature_norm", "image_feature_norm")
        )
        y = jnp.where((group["token_type"] == 0)[..., None], text, image)
        has_vector = jnp.any(feature_BLF != 0, axis=-1, keepdims=True)
        return jnp.where(has_vector, y, jnp.zeros_like(y))
