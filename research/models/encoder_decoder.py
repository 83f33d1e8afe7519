"""The encoder-decoder: two stacks over one table of tokens."""

# B batch, L length of the decoder, M of the encoder, P scored places, D width

from collections.abc import Mapping
from typing import NamedTuple

import jax
from flax import linen as nn

from research.models.blocks import Stack
from research.models.layers.attention import across, sight
from research.models.layers.embeddings import Embed, Table
from research.models.layers.heads import Head, HeadSpec, Output, Readout
from research.models.options import Options


class Memory(NamedTuple):
    """What the decoder reads of the encoder."""

    states: jax.Array  # [B, M, D]
    segment: jax.Array  # [B, M]


class EncoderDecoder(nn.Module):
    """T5, BART: a full encoder, and a causal decoder that reads its memory.

    A decoder's query sees the encoder's places of its own segment, whatever their rank.
    Each stack has `options.layers` blocks.
    """

    options: Options
    size: int
    heads: Mapping[str, int | HeadSpec] | tuple = ()

    def setup(self):
        options = self.options
        self.token = Table(options, self.size)
        self.encoder_place = Embed(options)
        self.encoder = Stack(options, "full")
        self.decoder_place = Embed(options)
        self.decoder = Stack(options, "causal")
        self.output = Output(options, self.size)
        self.answer = {
            name: Head(options, spec) for name, spec in dict(self.heads).items()
        }

    def encode(self, group: Mapping) -> Memory:
        """The memory of a group of arrays [B, M]."""
        places = group["token"].shape[1]
        x = self.encoder_place(self.token(group["token"]), group, places=places)
        return Memory(self.encoder(x, group), group["segment"])

    def states(
        self, group: Mapping, memory: Memory, scored: jax.Array | None = None
    ) -> jax.Array:
        """The decoder's states [B, L, D] of a group, or [B, P, D] of `scored`."""
        places = group["token"].shape[1]
        x = self.decoder_place(self.token(group["token"]), group, places=places)
        seen = sight(across(group["segment"], memory.segment))
        return self.decoder(x, group, memory=(memory.states, seen), scored=scored)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head of states [..., D]."""
        return self.output(states, self.token.rows)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n] of the head `name` at states [..., D]."""
        return self.answer[name](states)
