"""One transformer with options: tables, a stack of blocks, a readout, heads."""

# B batch, L length, P scored places, D width, E width of tables, V rows with padding

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.errors import UserError
from research.models.attention import HIDDEN
from research.models.layers import (
    ACTIVATIONS,
    RESIDUAL,
    Dense,
    Norm,
    constant,
    dropout,
    normal,
)
from research.models.options import Options
from research.models.positions import sinusoids
from research.models.stack import Stack

ROW = 128
"""Tables over the vocabulary have a multiple of this many rows."""


class Readout(NamedTuple):
    """A vocabulary head that is not yet multiplied out: feature @ table.T + bias."""

    feature: jax.Array  # [..., E]
    table: jax.Array  # [V, E] float32
    bias: jax.Array  # [V] float32, -1e9 at rows past `size`
    size: int  # rows in use


def lookup(table: jax.Array, index: jax.Array) -> jax.Array:
    """Rows of a table, whose width is whole meanwhile, or XLA would rematerialise."""
    table = nn.with_logical_constraint(table, ("vocab", None))
    rows = jnp.take(table, index, axis=0, mode="clip")
    return nn.with_logical_constraint(rows, RESIDUAL)


class Table(nn.Module):
    """One vector [E] for each entry of a vocabulary."""

    options: Options
    size: int

    def setup(self):
        rows = -(-self.size // ROW) * ROW
        std = 1.0 if self.options.init == "t5" else 0.02
        shape = (rows, self.options.table_width)
        self.rows = self.param("rows", normal(std, "vocab", "embed"), shape)

    def __call__(self, token):
        """[B, L, E] of token [B, L]."""
        return lookup(self.rows, token)


class Embed(nn.Module):
    """What places add to their tokens: position, kind, a norm in post-norm models."""

    options: Options

    @nn.compact
    def __call__(self, x, group, *, places: int):
        """[B, L, E] from the tokens' rows [B, L, E] and the group.

        Raises:
          UserError: there are more places than positions in the table.
        """
        options = self.options
        width = x.shape[-1]
        if options.position == "learned":
            if places > options.max_length:
                raise UserError(
                    f"model.max_length is {options.max_length}, but the network reads "
                    f"{places} places; it must be at least that"
                )
            std = 0.01 if options.init == "gpt2" else 0.02
            shape = (options.max_length, width)
            table = self.param("position", normal(std, None, "embed"), shape)
            x = x + lookup(table, group["position"])
        elif options.position == "sinusoidal":
            x = x + sinusoids(group["position"], width)
        if options.kinds:
            shape = (options.kinds, width)
            table = self.param("kind", normal(0.02, None, "embed"), shape)
            x = x + lookup(table, group["kind"])
        if options.norm_place == "post":
            x = Norm(options, name="norm")(x)
        return dropout(self, x.astype(options.dtype))


class Output(nn.Module):
    """From states to a readout over the vocabulary.

    Attributes:
      transform: BERT's head before the table (dense, activation, norm) and a bias.
    """

    options: Options
    size: int
    transform: bool = False

    @nn.compact
    def __call__(self, states, rows):
        """The readout of states [..., D]; `rows` [V, E] are the tokens' own."""
        options = self.options
        num_rows, width = rows.shape
        x = states
        if self.transform:
            x = Dense(options, width, ("embed", None), name="dense")(x)
            x = Norm(options, name="norm")(ACTIVATIONS[options.activation](x))
        elif x.shape[-1] != width:
            x = Dense(options, width, ("embed", None), name="project")(x)
        if not options.tied:
            std = options.width**-0.5 if options.init == "t5" else 0.02
            rows = self.param("rows", normal(std, "vocab", "embed"), rows.shape)
        elif options.init == "t5":
            x = x * options.width**-0.5
        bias = jnp.zeros(num_rows)
        if self.transform:
            bias = self.param("bias", constant(0.0, "vocab"), (num_rows,))
        bias = jnp.where(jnp.arange(num_rows) < self.size, bias, HIDDEN)
        return Readout(x, rows, bias, self.size)


class Head(nn.Module):
    """Dense, activation, dense: what a state says about something with n values."""

    options: Options
    size: int

    @nn.compact
    def __call__(self, states):
        """Float32 [..., n] of states [..., D]."""
        options = self.options
        axes = ("embed", None)
        x = Dense(options, options.width, axes, name="dense")(states)
        x = dropout(self, ACTIVATIONS[options.activation](x))
        return Dense(options, self.size, axes, name="out")(x).astype(jnp.float32)


class Transformer(nn.Module):
    """A stack that reads one group of arrays: BERT, GPT, XLNet and their like.

    Attributes:
      size: entries of the vocabulary.
      pattern: the objective's promise about rank and reach.
      transform: the readout has BERT's head.
      heads: how many values each named head has.
      table, embed: another network's, when they are shared.
    """

    options: Options
    size: int
    pattern: str = "general"
    transform: bool = False
    heads: Mapping[str, int] | tuple = ()
    table: Any = None
    embed: Any = None

    def setup(self):
        options = self.options
        if self.table is None:
            self.token = Table(options, self.size)
            self.place = Embed(options)
        self.stack = Stack(options, self.pattern)
        self.output = Output(options, self.size, self.transform)
        self.answer = {
            name: Head(options, size) for name, size in dict(self.heads).items()
        }

    def states(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        keys: int | None = None,
    ) -> jax.Array:
        """States [B, L, D] of a group of arrays [B, L].

        Args:
          keys: only the first so many places serve as keys; None: all.
          scored: [B, P] places; then the states [B, P, D] of these alone, for which
            the last block is cheaper. Equal to gathering them afterwards.
        """
        table, embed = self.tables()
        places = keys or group["token"].shape[1]
        x = embed(table(group["token"]), group, places=places)
        return self.stack(x, group, scored=scored, keys=keys)

    def tables(self):
        """The tables of tokens, and what adds positions and kinds to their rows."""
        if self.table is None:
            return self.token, self.place
        return self.table, self.embed

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head of states [..., D]."""
        return self.output(states, self.tables()[0].rows)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n] of the head `name` at states [..., D]."""
        return self.answer[name](states)
