"""One transformer with options: tables, a stack of blocks, a readout, heads."""

# B batch, L length, P scored places, K spans' places, N remembered places, D width

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.errors import UserError
from research.models.blocks import Past, Stack
from research.models.layers.embeddings import Embed, Table
from research.models.layers.heads import Boundary, Head, HeadSpec, Output, Readout
from research.models.options import Options


class Transformer(nn.Module):
    """A stack that reads one group of arrays: BERT, GPT, XLNet and their like.

    Attributes:
      size: entries of the vocabulary.
      pattern: the objective's promise about rank and reach.
      transform: the readout has BERT's head.
      heads: how many values each named head has, or what it is made of.
      offsets: places of a span for which `boundary` reads out; 0: none.
      table, embed, blocks, reads: another network's tables, stack and readout, where
        they are shared.
    """

    options: Options
    size: int
    pattern: str = "general"
    transform: bool = False
    heads: Mapping[str, int | HeadSpec] | tuple = ()
    offsets: int = 0
    table: Any = None
    embed: Any = None
    blocks: Any = None
    reads: Any = None

    def setup(self):
        options = self.options
        if self.table is None:
            self.token = Table(options, self.size)
        if self.embed is None:
            self.place = Embed(options)
        if self.blocks is None:
            self.stack = Stack(options, self.pattern)
        if self.reads is None:
            self.output = Output(options, self.size, self.transform)
        if self.offsets:
            self.sides = Boundary(options, self.size, self.offsets)
        self.answer = {
            name: Head(options, spec) for name, spec in dict(self.heads).items()
        }

    def states(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        keys: int | None = None,
        memory: Mapping | None = None,
        kept: int | None = None,
    ) -> Any:
        """States [B, L, D] of a group of arrays [B, L].

        With a memory also the next one: of the places remembered so far and the first
        `kept` places here the last N. Every place that is no padding sees all of the
        memory that is none; it lies just before the first place, or behind it in rows
        whose positions fall. Nothing is learned through it (Dai et al. 2019, section
        3.2).

        Args:
          keys: only the first so many places serve as keys; None: all.
          scored: [B, P] places; then the states [B, P, D] of these alone, for which
            the last block is cheaper. Equal to gathering them afterwards.
          memory: `no_memory` at first, then what the step before gave:
            state [B, layers, N, D], what each block read; segment [B, N], 0: nothing.
          kept: places that the memory may take; None: those that serve as keys.

        Raises:
          UserError: a memory, and positions that are not relative.
        """
        table, embed = self.tables()
        places = keys or group["token"].shape[1]
        x = embed(table(group["token"]), group, places=places)
        stack = self.stack if self.blocks is None else self.blocks
        stack = partial(stack, x, group, scored=scored, keys=keys)
        if memory is None:
            return stack()
        past, stop = self._past(memory), kept or places
        start = max(0, stop - past.segment.shape[1])
        states, inputs = stack(past=past, kept=(start, stop))
        segment = jnp.concatenate([past.segment, group["segment"][:, start:stop]], 1)
        state = jnp.concatenate([past.state, inputs], 2)
        fresh = stop - start
        return states, {"state": state[:, :, fresh:], "segment": segment[:, fresh:]}

    def _past(self, memory: Mapping) -> Past:
        position = self.options.position
        if position != "relative":
            raise UserError(
                f"model.position is {position!r}, but a memory needs relative ones; "
                "set model.position=relative"
            )
        return Past(jax.lax.stop_gradient(memory["state"]), memory["segment"])

    def no_memory(self, rows: int, places: int) -> dict[str, jax.Array]:
        """A memory of so many places [B, N], none of which is seen."""
        options = self.options
        shape = (rows, options.layers, places, options.width)
        return {
            "state": jnp.zeros(shape, options.dtype),
            "segment": jnp.zeros((rows, places), jnp.int32),
        }

    def tables(self):
        """The tables of tokens, and what adds positions and kinds to their rows."""
        table = self.token if self.table is None else self.table
        return table, self.place if self.embed is None else self.embed

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head of states [..., D]."""
        output = self.output if self.reads is None else self.reads
        return output(states, self.tables()[0].rows)

    def boundary(self, left: jax.Array, right: jax.Array, offset: jax.Array) -> Readout:
        """SpanBERT's vocabulary head of tokens between two states.

        Args:
          left, right: the states [B, K, D] before and after each token's span.
          offset: [B, K] int32, the token's place in its span, from 0.
        """
        return self.sides(left, right, offset, self.tables()[0].rows)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n] of the head `name` at states [..., D]."""
        return self.answer[name](states)
