"""Two towers, for images and texts, that are joined only by vectors (CLIP, ALIGN)."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from research import networks
from research.networks import readouts
from research.networks.shared.dense import Module, constant
from research.networks.shared.options import depth, dim
from research.networks.transformer import transformer
from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.options import TransformerOptions

IMAGE_TOKENS = 4
"""Number of tokens that positions of an image may read in addition to pixels."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(transformer.Network):
    """A transformer for texts, and one for images whose keys begin with `image_`.

    For an objective that reads only texts it is the transformer for texts. The other
    keys, such as `init` and `activation`, apply to both. The embeddings of images have
    a norm (CLIP's ln_pre; openai/CLIP at d05afc4, clip/model.py).
    """

    image_layers: int = depth(0, least=0)  # blocks of the image's tower; 0: layers
    image_width: int = dim(0, least=0)  # its width; 0: width
    image_heads: int = dim(0, least=0)  # its heads; 0: heads
    image_feedforward: int = dim(0, least=0)  # its feed-forward width; 0: feedforward

    scales_with_width = False
    small_keys: ClassVar = {"image_heads": 2, "image_feedforward": 24}
    abilities: ClassVar = (
        networks.Ability.FULL,
        networks.Ability.CAUSAL,
        networks.Ability.GENERAL,
        networks.Ability.INPUT_FEATURES,
        networks.Ability.TOWERS,
    )

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        if needs.stacks != "towers":
            return super().module(needs, size)
        self._check_needs(needs)
        return TwoTowers(self, size, needs)

    def image_options(self, positions: int) -> TransformerOptions:
        """The options of the image's tower."""
        return dataclasses.replace(
            self,
            layers=self.image_layers or self.layers,
            width=self.image_width or self.width,
            heads=self.image_heads or self.heads,
            feedforward=self.image_feedforward or self.feedforward,
            head_width=0 if self.image_width else self.head_width,
            embedding_width=0,
            **readouts.keys(),
            embedding_norm="always",
            max_length=positions,
            token_types=0,
            token_type_encoding="absolute",
        )


class TwoTowers(Module):
    """When bound, `text` and `image` are `networks.BoundNetwork` with the same heads.

    Attributes:
      size: entries of the vocabulary of texts.
    """

    options: Network
    size: int
    needs: networks.Needs

    def setup(self):
        # The names are those of the parameters in checkpoints.
        needs, heads = self.needs, tuple(self.needs.heads.items())
        self.text = Transformer(
            self.options, self.size, pattern=needs.pattern, heads=heads
        )
        options = self.options.image_options(needs.image_positions)
        self.image = Transformer(options, IMAGE_TOKENS, pattern="full", heads=heads)
        self.scale = self.param("log_scale", constant(0.0), ())

    def log_scale(self) -> jax.Array:
        """Float32 []: a learned number, initially 0, for logits of pairs."""
        return self.scale.astype(jnp.float32)

    def states(self, group: Any, scored: Any = None) -> jax.Array:
        """The states of the text's tower."""
        return self.text.states(group, scored)

    def outputs(self, *args: Any, **options: Any) -> networks.Outputs:
        """The outputs of the text's tower."""
        return self.text.outputs(*args, **options)

    def features(self, group: Any, scored: Any = None) -> jax.Array:
        """The states of the text's tower."""
        return self.text.states(group, scored)

    def readout(self, states: jax.Array) -> networks.Readout:
        """The vocabulary head of the text's tower."""
        return self.text.readout(states)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` of the text's tower."""
        return self.text.head(name, states)
