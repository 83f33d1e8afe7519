"""Tables: a vector for each word as input, another one as output, and nothing else.

The networks of word2vec (Mikolov et al. 2013a, 2013b) and of GloVe (Pennington et al.
2014), which has biases of words, too: the state of a position is the
vector of its token. What is predicted from which state, and whether states are
averaged, is the objective's.
"""

# B batch, L length, P scored positions, D width

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from research import networks
from research.errors import UserError
from research.fields import choice
from research.networks.layers.dense import (
    Module,
    constant,
    dropout,
    gather_positions,
    uniform,
)
from research.networks.layers.embeddings import TokenEmbedding
from research.networks.layers.heads import HeadSpec, Readout, VocabHead, make_heads


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(networks.Network):
    """Two tables, or one if `tie_embeddings`; there are no layers between them."""

    table_init: str = choice("init", ("init", "word2vec", "glove"))  # initial
    # vectors; init: by model.init; word2vec: inputs are uniform within 1 / (2 width),
    # outputs 0; glove: both are uniform so, and biases

    abilities: ClassVar = (networks.Ability.SELF, networks.Ability.TOKEN_BIAS)

    def __post_init__(self):
        super().__post_init__()
        if self.cutoffs:
            raise UserError("model.network tables has no model.cutoffs; set it to []")
        if self.embedding_width not in (0, self.width):
            raise UserError(
                f"model.embedding_width is {self.embedding_width}, but the vectors of "
                f"model.network tables have model.width, {self.width}; set it to 0"
            )

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        return Tables(self, size, needs.transform, tuple(needs.heads.items()))

    def text_layout(self, pattern: str) -> str:
        return "words"


class Tables(nn.Module):
    """A `networks.BoundNetwork` once it is bound.

    Attributes:
      size: entries of the vocabulary.
      transform: the readout has BERT's layers before the table.
      heads: the layers of each named head.
    """

    options: Network
    size: int
    transform: bool = False
    heads: tuple[tuple[str, HeadSpec], ...] = ()

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        drawn = uniform(0.5 / options.width, "vocab", "embed")
        none = constant(0.0, "vocab", "embed")
        token_init, output_init = {
            "init": (None, None),
            "word2vec": (drawn, none),
            "glove": (drawn, drawn),
        }[options.table_init]
        self.token = TokenEmbedding(options, self.size, token_init)
        self.input_bias = TokenBias(options, self.token)
        self.output = VocabHead(options, self.size, self.transform, output_init)
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def states(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The vectors [B, L, D], or [B, P, D] at `scored`."""
        x = self.token(group["token"]).astype(self.options.dtype)
        x = dropout(self, x, "embedding")
        x = dropout(self, x, "output")
        return x if scored is None else gather_positions(x, scored)

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The inputs of fine-tuning heads, which are the states."""
        return self.states(group, scored)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., D]."""
        return self.output(states, self.token.table_VE)

    def token_bias(self, group: Mapping) -> jax.Array:
        """Float32 [B, L]: the bias of each input token."""
        return self.input_bias(group["token"])

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)


class TokenBias(Module):
    """A number for each entry of a vocabulary.

    Attributes:
      token: the `TokenEmbedding` whose rows it has.
    """

    options: Network
    token: nn.Module

    @nn.compact
    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L]."""
        options, init = self.options, constant(0.0, "vocab")
        if options.table_init == "glove":
            init = uniform(0.5 / options.width, "vocab")
        bias_V = self.param("bias", init, (len(self.token.table_VE),))
        return jnp.take(bias_V, token_BL, mode="clip")
