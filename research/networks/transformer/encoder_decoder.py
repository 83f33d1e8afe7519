"""The encoder-decoder: two stacks, with one token embedding or two."""

# B batch, L length of the decoder, M of the encoder, P scored positions, D width

import dataclasses
from collections.abc import Mapping

import jax
from flax import linen as nn

from research.networks.readouts.softmax import Readout, VocabHead
from research.networks.shared.embeddings import TokenEmbedding
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.shared.protocol import Outputs, StatesOfOutputs
from research.networks.transformer.blocks import Encoded, Stack
from research.networks.transformer.cache import Cache, empty_cache
from research.networks.transformer.input_embeddings import InputEmbedding
from research.networks.transformer.options import TransformerOptions as Options


class EncoderDecoder(StatesOfOutputs, nn.Module):
    """T5, BART: a bidirectional encoder, and a causal decoder that attends to it.

    A decoder query attends to all encoder positions of its segment, whatever their
    rank. Each stack has `options.layers` blocks, unless `options.decoder_layers` gives
    the decoder's number; with `options.shared_stacks` both are one stack, whose
    cross-attention only the decoder uses. The readout uses the decoder's token table.

    Attributes:
      size: entries of the vocabulary.
      heads: number of values of each named head, or its `HeadSpec`.
    """

    options: Options
    size: int
    heads: Mapping[str, int | HeadSpec] | tuple = ()

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        self.token = TokenEmbedding(options, self.size)
        self.target_token = self.token
        if not options.shared_embeddings:
            self.target_token = TokenEmbedding(options, self.size, name="decoder_token")
        self.encoder_embedding = InputEmbedding(options, name="encoder_embeddings")
        self.decoder_embedding = InputEmbedding(options, name="decoder_embeddings")
        num_layers = options.decoder_layers or options.layers
        shared = options.shared_stacks
        decoder_options = dataclasses.replace(options, layers=num_layers)
        self.decoder = Stack(decoder_options, "causal", is_shared=shared)
        self.encoder = self.decoder if shared else Stack(options, "full")
        self.output = VocabHead(options, self.size)
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def encode(self, group: Mapping) -> Encoded:
        """The encoder's output for a group of arrays [B, M]."""
        token = group["token"]
        x = self.encoder_embedding(self.token(token), group, length=token.shape[1])
        states = self.encoder(x, group, pattern="full").states
        return Encoded(states, group["segment"])

    def outputs(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        *,
        encoded: Encoded | None = None,
        cache: Cache | None = None,
    ) -> Outputs:
        """The decoder's outputs.

        The next cache also holds the keys and values of the encoder's text: later calls
        omit `encoded`.
        """
        token = group["token"]
        x = self.target_token(token)
        x = self.decoder_embedding(x, group, length=token.shape[1])
        found = self.decoder(x, group, encoded=encoded, scored=scored, cache=cache)
        return Outputs(found.states, cache=found.cache)

    def empty_cache(self, rows: int, slots: int) -> Cache:
        """A cache for `slots` tokens that the decoder reads of each row."""
        return empty_cache(self.decoder.options, rows, slots)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., D]."""
        return self.output(states, self.target_token.table_VE)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)
