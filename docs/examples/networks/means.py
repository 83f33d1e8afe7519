"""A network without attention: a position reads the mean of those that it may read."""

# B batch, L length, P scored positions, D width

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from research import networks
from research.contract.batch import attention_mask
from research.networks.readouts.softmax import VocabHead
from research.networks.shared.dense import (
    STATE_AXES,
    Dense,
    FeedForward,
    Module,
    Norm,
    dropout,
    gather_positions,
)
from research.networks.shared.embeddings import TokenEmbedding
from research.networks.shared.heads import make_heads
from research.networks.shared.options import dim, dropout_rate
from research.networks.shared.positions import sinusoids
from research.networks.shared.products import einsum


@dataclass(frozen=True, kw_only=True)
class Network(networks.Network):
    """Layers add what a feed-forward layer makes of a state and of the mean."""

    feedforward: int = dim(1024, least=1)  # width inside the feed-forward layer
    feedforward_dropout: float = dropout_rate(0.0)  # inside a feed-forward layer

    dropout_places: ClassVar = ("embedding", "feedforward", "output", "head")
    abilities: ClassVar = (networks.Ability.FULL,)

    def module(self, needs, size):
        return Means(self, size, needs.transform, tuple(needs.heads.items()))


class Means(nn.Module):
    """A `networks.BoundNetwork` once it is bound."""

    options: Network
    size: int  # entries of the vocabulary
    transform: bool  # the readout has BERT's layers before the table
    heads: tuple  # the layers of each named head

    def setup(self):
        options = self.options
        self.token = TokenEmbedding(options, self.size)
        self.stack = Stack(options)
        self.output = VocabHead(options, self.size, self.transform)
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def states(self, group, scored=None):
        """[B, L, D], or [B, P, D] at the scored positions [B, P]."""
        x_BLD = self.stack(self.token(group["token"]), group)
        return x_BLD if scored is None else gather_positions(x_BLD, scored)

    def features(self, group, scored=None):
        return self.states(group, scored)

    def readout(self, states):
        return self.output(states, self.token.table_VE)

    def head(self, name, states):
        return self.named_heads[name](states)


class Stack(Module):
    """Embeddings, with those of positions, and all layers."""

    options: Network

    @nn.compact
    def __call__(self, x_BLE: jax.Array, group: dict) -> jax.Array:
        options = self.options
        mask_BLL = attention_mask(group).astype(options.dtype)
        num_BL1 = jnp.maximum(1, jnp.sum(mask_BLL, axis=-1, keepdims=True))
        weight_BLL = mask_BLL / num_BL1
        x = x_BLE.astype(options.dtype)
        if x.shape[-1] != options.width:
            x = Dense(options, options.width, (None, "embed"), name="project")(x)
        x += sinusoids(group["position"], options.width).astype(x.dtype)
        x = dropout(self, x, "embedding")
        for n in range(options.layers):
            x += Block(options, name=f"block_{n}")(x, weight_BLL)
            x = nn.with_logical_constraint(x, STATE_AXES)
        return dropout(self, Norm(options, name="norm")(x), "output")


class Block(nn.Module):
    """What a layer adds."""

    options: Network

    @nn.compact
    def __call__(self, x_BLD: jax.Array, weight_BLL: jax.Array) -> jax.Array:
        options = self.options
        y = Norm(options, name="norm")(x_BLD)
        mean = Dense(options, options.width, ("embed", None), name="mean")
        operands = (each.astype(options.operand_dtype) for each in (weight_BLL, y))
        y += mean(einsum("blm,bmd->bld", *operands).astype(y.dtype))
        return FeedForward(options, name="feedforward")(y)
