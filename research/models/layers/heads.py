"""What is said of states: readouts over the vocabulary, and heads with few values."""

# B batch, K scored places, D width, E width of tables, V rows with padding

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.models.layers.attention import HIDDEN
from research.models.layers.dense import (
    ACTIVATIONS,
    Dense,
    Norm,
    constant,
    dropout,
    normal,
)
from research.models.layers.embeddings import lookup
from research.models.options import Options

OFFSET_WIDTH = 200
"""Width of the offsets' vectors (Joshi et al. 2020, section 4.2)."""


class Readout(NamedTuple):
    """A vocabulary head that is not yet multiplied out: feature @ table.T + bias."""

    feature: jax.Array  # [..., E]
    table: jax.Array  # [V, E] float32
    bias: jax.Array  # [V] float32, -1e9 at rows past `size`
    size: int  # rows in use


@dataclasses.dataclass(frozen=True)
class HeadSpec:
    """What a named head is made of; an int in its place is HeadSpec(int).

    BERT's sentence head (pooler, then a dense layer) is HeadSpec(2, "tanh"); a linear
    one is HeadSpec(n, "none").
    """

    size: int  # values
    activation: str = ""  # of the hidden layer; "": the network's; none: no such layer
    hidden: int = 0  # width of the hidden layer; 0: the network's

    def __post_init__(self):
        legal = ("", "none", "tanh", *ACTIVATIONS)
        if self.activation not in legal:
            raise ValueError(f"activation is {self.activation!r}, not one of {legal}")
        if self.size < 1 or self.hidden < 0:
            raise ValueError("a head has at least 1 value, a hidden layer a width")


class Head(nn.Module):
    """Dense, activation, dense: what a state says about something with n values."""

    options: Options
    spec: HeadSpec | int

    @nn.compact
    def __call__(self, states):
        """Float32 [..., n] of states [..., any width]."""
        options, spec = self.options, self.spec
        if isinstance(spec, int):
            spec = HeadSpec(spec)
        axes = ("embed", None)
        x = states
        if spec.activation != "none":
            x = Dense(options, spec.hidden or options.width, axes, name="dense")(x)
            name = spec.activation or options.activation
            x = dropout(self, jnp.tanh(x) if name == "tanh" else ACTIVATIONS[name](x))
        return Dense(options, spec.size, axes, name="out")(x).astype(jnp.float32)


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
        if not options.tie_embeddings:
            std = options.width**-0.5 if options.init == "t5" else 0.02
            init = normal(options, std, "vocab", "embed")
            rows = self.param("rows", init, rows.shape)
        elif options.init == "t5":
            x = x * options.width**-0.5
        bias = jnp.zeros(num_rows)
        if self.transform:
            bias = self.param("bias", constant(0.0, "vocab"), (num_rows,))
        return Readout(x, rows, _of_used_rows(bias, self.size), self.size)


class Boundary(nn.Module):
    """SpanBERT's boundary objective: a token from the two states around its span.

    Two layers (dense, activation, norm) on both states and a vector of the token's
    place in the span, then the tokens' own table, or one of its own where the output
    is not tied, and a bias (Joshi et al. 2020, section 3.2; the released code).

    Attributes:
      size: entries of the vocabulary.
      offsets: places of a span that have a vector.
    """

    options: Options
    size: int
    offsets: int

    @nn.compact
    def __call__(self, left, right, offset, rows):
        """The readout of left, right [B, K, D] and offset [B, K] in 0..offsets - 1."""
        options = self.options
        num_rows, width = rows.shape
        init = normal(options, 0.02, None, None)
        table = self.param("offset", init, (self.offsets, OFFSET_WIDTH))
        place = lookup(table, offset).astype(left.dtype)
        x = jnp.concatenate([left, right, place], axis=-1)
        act, axes = ACTIVATIONS[options.activation], (None, "embed")
        x = Dense(options, options.width, axes, name="first")(x)
        x = Norm(options, name="first_norm")(act(x))
        x = Dense(options, width, axes[::-1], name="second")(x)
        x = Norm(options, name="second_norm")(act(x))
        if not options.tie_embeddings:
            init = normal(options, 0.02, "vocab", "embed")
            rows = self.param("rows", init, rows.shape)
        bias = self.param("bias", constant(0.0, "vocab"), (num_rows,))
        return Readout(x, rows, _of_used_rows(bias, self.size), self.size)


def _of_used_rows(bias_V, size):
    """The bias, which hides the rows that pad the vocabulary."""
    return jnp.where(jnp.arange(len(bias_V)) < size, bias_V, HIDDEN)
