"""One transformer with options: embeddings, a stack of blocks, a readout, heads."""

# B batch, L length, P scored positions, K positions in spans, N mems, D width

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.contract.errors import UserError
from research.networks.readouts import OtherReadout
from research.networks.readouts.softmax import Readout
from research.networks.shared.dense import Dense, Norm, gather_positions
from research.networks.shared.embeddings import DifferenceEmbedding, TokenEmbedding
from research.networks.shared.features import FeatureLayers
from research.networks.shared.heads import BoundaryHead, HeadSpec, make_heads
from research.networks.shared.protocol import Layers, Outputs, StatesOfOutputs
from research.networks.transformer.blocks import Mems, Stack
from research.networks.transformer.cache import Cache, empty_cache
from research.networks.transformer.input_embeddings import (
    InputEmbedding,
    QueryEmbedding,
)
from research.networks.transformer.options import TransformerOptions as Options

PARTS = ("token", "states")
"""What a block that predicts tokens after the next may read."""


class Transformer(StatesOfOutputs, nn.Module):
    """A stack that reads one group of arrays: BERT, GPT, XLNet and the like.

    Attributes:
      size: entries of the vocabulary.
      pattern: the objective's promise about rank and reach: full | causal | general.
      transform: the readout has BERT's layers before the table.
      heads: number of values of each named head, or its `HeadSpec`.
      offsets: number of offsets in a span that `boundary` distinguishes; 0: no such
        head.
      feature_states, lstm_layers: see `FeatureLayers`.
      future, future_tokens: number of blocks that predict tokens after the next, and
        whether they read tokens.
      base_token: the module of another network to whose token embeddings a table of
        differences is added; None: no such network.
      shared_token, shared_embedding, shared_stack, shared_output: modules of another
        network to use instead of new ones; None: a new one.
    """

    options: Options
    size: int
    pattern: str = "general"
    transform: bool = False
    heads: Mapping[str, int | HeadSpec] | tuple = ()
    offsets: int = 0
    feature_states: str = "last"
    lstm_layers: int = 0
    future: int = 0
    future_tokens: bool = False
    base_token: Any = None
    shared_token: Any = None
    shared_embedding: Any = None
    shared_stack: Any = None
    shared_output: Any = None

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        self.query_embedding = QueryEmbedding(options)
        if self.shared_token is None:
            self.token = options.output.embedding(options, self.size) or (
                TokenEmbedding(options, self.size)
                if self.base_token is None
                else DifferenceEmbedding(options, self.size, base=self.base_token)
            )
        if self.shared_embedding is None:
            self.embedding = InputEmbedding(options, name="embeddings")
        if self.shared_stack is None:
            self.stack = Stack(options, self.pattern)
        if self.shared_output is None:
            token, _ = self.embeddings()
            self.output = options.output.head(options, self.size, token, self.transform)
        if self.offsets:
            self.boundary_head = BoundaryHead(
                options, self.size, self.offsets, name="boundary_head"
            )
        self.future_stacks = [
            Stack(self._future_options, self.pattern, name=f"future_{number}")
            for number in range(self.future)
        ]
        if self.future_tokens:
            self.future_norms = [
                [Norm(options, name=f"future_{number}_{part}_norm") for part in PARTS]
                for number in range(self.future)
            ]
            self.future_projections = [
                Dense(
                    options,
                    options.width,
                    (None, "embed"),
                    name=f"future_{number}_projection",
                )
                for number in range(self.future)
            ]
        self.has_feature_layers = self.feature_states != "last" or self.lstm_layers > 0
        self.feature_layers = FeatureLayers(
            options, self.feature_states, self.lstm_layers, name="features"
        )
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def outputs(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        *,
        num_keys: int | None = None,
        mems: Mapping | None = None,
        reuse_len: int | None = None,
        cache: Cache | None = None,
        with_inputs: bool = False,
        same_length: bool = False,
        clamp_len: int = 0,
        runs: jax.Array | None = None,
    ) -> Outputs:
        """The outputs for a group of arrays [B, L].

        The next mems are the last N of the mems so far and of the first `reuse_len`
        positions of this group. Every query outside padding attends to all mems outside
        padding, which directly precede the first position, or follow it in rows with
        decreasing positions. No gradient flows through mems (Dai et al. 2019, section
        3.2). The keys of this group follow those in the cache.

        Args:
          scored: [B, P] positions; the states are then only theirs [B, P, D]. They
            equal those gathered afterwards, but the last block is cheaper.
          num_keys: only this many first positions serve as keys; the others are
            queries, which read one vector instead of their tokens. None: all.
          mems: `empty_mems` in the first step, then those of the previous outputs:
            `state` [B, layers, N, D], the inputs of each block, and `segment` [B, N],
            0: padding.
          reuse_len: number of positions that may become mems; None: all keys.
          cache: `empty_cache`, or that of the previous outputs.
          with_inputs: without mems, the outputs have the inputs of all blocks.
          same_length: with N mems, a query attends only to itself and the N - 1 tokens
            before it.
          clamp_len: with mems, larger distances are replaced by it; 0: never.
          runs: without mems, cache and inputs, [layers] bool: the layers that run; the
            others are skipped. None: all.
        """
        token, embedding = self.embeddings()
        rows, length = group["token"].shape
        if num_keys is None:
            x = token(group["token"])
        else:
            query = self.query_embedding(rows, length - num_keys)
            x = jnp.concatenate([token(group["token"][:, :num_keys]), query], axis=1)
            length = num_keys
        x = embedding(x, group, length=length)
        stack = self.stack if self.shared_stack is None else self.shared_stack
        stack = partial(stack, x, group, scored=scored, num_keys=num_keys)
        if self.transform and self.options.mask_decoder and not with_inputs:
            if mems is not None or cache is not None or runs is not None:
                raise UserError(
                    "model.mask_decoder reads whole rows by all layers; set it to 0"
                )
            return Outputs(stack(decodes=True).states)
        if mems is None:
            found = stack(cache=cache, with_inputs=with_inputs, runs=runs)
            return Outputs(found.states, cache=found.cache, inputs=found.inputs)
        state = jax.lax.stop_gradient(mems["state"])
        segment, stop = mems["segment"], reuse_len or length
        start = max(0, stop - segment.shape[1])
        num_new = stop - start
        mems = Mems(state, segment, same_length, clamp_len)
        found = stack(mems=mems, memorize=(start, stop))
        segment = jnp.concatenate([segment, group["segment"][:, start:stop]], 1)
        state = jnp.concatenate([state, found.memorized], 2)
        mems = {"state": state[:, :, num_new:], "segment": segment[:, num_new:]}
        return Outputs(found.states, mems)

    @property
    def _future_options(self) -> Options:
        """The options of a stack of one layer."""
        return dataclasses.replace(self.options, layers=1, scan_unroll=1)

    def embed(self, group: Mapping, vectors: jax.Array | None = None) -> jax.Array:
        """The input embeddings [B, L, E] of a group of arrays [B, L].

        Args:
          vectors: [B, L, E], used instead of those of tokens; only positions are added
            to them. None: those of tokens.
        """
        token, embedding = self.embeddings()
        bare = vectors is not None
        x = vectors if bare else token(group["token"])
        return embedding(x, group, length=x.shape[1], bare=bare)

    def future_outputs(
        self,
        group: Mapping,
        states: jax.Array,
        number: int,
        cache: Cache | None = None,
        scored: jax.Array | None = None,
        pattern: str | None = None,
    ) -> Outputs:
        """The outputs of a block that predicts tokens after the next.

        With `future_tokens` it reads a projection of the normed embeddings of the
        group's tokens and of the normed states (DeepSeek-AI 2024, section 2.2,
        equation 21); else the states (Gloeckle et al. 2024, section 2).

        Args:
          states: [B, L, D].
          number: of the block, from 0.
          cache: `empty_future_cache`, or that of the block's previous outputs.
          scored: [B, P] positions; the states are then only theirs.
          pattern: that of the group's attention; None: the network's.
        """
        if self.future_tokens:
            token = self.embeddings()[0](group["token"])
            both = [
                norm(x)
                for norm, x in zip(
                    self.future_norms[number], (token, states), strict=True
                )
            ]
            states = self.future_projections[number](jnp.concatenate(both, axis=-1))
        run = partial(self.future_stacks[number], states, group)
        found = run(cache=cache, scored=scored, pattern=pattern)
        return Outputs(found.states, cache=found.cache)

    def empty_future_cache(self, rows: int, slots: int) -> Cache:
        """A cache of one of these blocks."""
        return empty_cache(self._future_options, rows, slots)

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """Inputs of fine-tuning heads [B, L, F], or [B, P, F] at `scored` [B, P].

        They are the states, or `FeatureLayers` for rows with padding at their end.
        """
        if not self.has_feature_layers:
            return self.states(group, scored)
        read = ()
        if self.feature_states != "vectors":
            outputs = self.outputs(group, with_inputs=True)
            read = outputs.states, outputs.inputs
        x = self.feature_layers(group, *read)
        return x if scored is None else gather_positions(x, scored)

    def layers(self, group: Mapping) -> Layers:
        """What all layers compute for a group of arrays [B, L]."""
        x = self.embed(group)
        stack = self.stack if self.shared_stack is None else self.shared_stack
        found = stack(x, group, with_inputs=True, with_projections=True)
        states = jnp.concatenate([found.inputs, found.states[None]])
        return Layers(states, *found.projections)

    def empty_mems(self, rows: int, length: int) -> dict[str, jax.Array]:
        """Mems of `length` positions [B, N], all of which are padding."""
        options = self.options
        shape = (rows, options.layers, length, options.width)
        return {
            "state": jnp.zeros(shape, options.dtype),
            "segment": jnp.zeros((rows, length), jnp.int32),
        }

    def empty_cache(self, rows: int, slots: int) -> Cache:
        """A cache for `slots` tokens of each row."""
        return empty_cache(self.options, rows, slots)

    def embeddings(self) -> tuple[Any, Any]:
        """The modules that embed tokens, and positions and token types."""
        token = self.token if self.shared_token is None else self.shared_token
        if self.shared_embedding is None:
            return token, self.embedding
        return token, self.shared_embedding

    def readout(self, states: jax.Array) -> Readout | OtherReadout:
        """The vocabulary head at states [..., D]."""
        output = self.output if self.shared_output is None else self.shared_output
        return self.options.output.readout(output, states, self.embeddings()[0])

    def boundary(self, left: jax.Array, right: jax.Array, offset: jax.Array) -> Readout:
        """SpanBERT's vocabulary head of tokens between two states.

        Args:
          left, right: the states [B, K, D] before and after each token's span.
          offset: [B, K] int32, the token's offset in its span, from 0.
        """
        return self.boundary_head(left, right, offset, self.embeddings()[0].table_VE)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)
