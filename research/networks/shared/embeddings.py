"""Token embeddings, and the lookup of rows of a table."""

# B batch, L length, E embedding width, V rows with padding

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.networks.shared.dense import STATE_AXES, Module, constant, normal, uniform
from research.networks.shared.options import Options
from research.networks.shared.quantized import (
    SCALE,
    SPLIT,
    VALUES,
    is_stored,
    quantize_rows,
    sum_parts,
    within,
)

VOCAB_MULTIPLE = 128
"""The rows of token tables are padded to a multiple of this."""


def padded_rows(size: int) -> int:
    """The rows of a table for `size` entries of a vocabulary."""
    return -(-size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE


def lookup(table: jax.Array, index: jax.Array, rows: str | None = None) -> jax.Array:
    """Rows of a table [V, E], or [V, 2, E].

    The table's width is constrained not to be sharded during the lookup; otherwise XLA
    rematerialises the whole table.

    Args:
      rows: the logical name of the table's rows, if it has one.
    """
    table = nn.with_logical_constraint(table, (rows, None, None)[: table.ndim])
    found = jnp.take(table, index, axis=0, mode="clip")
    return nn.with_logical_constraint(found, (*STATE_AXES, None)[: found.ndim])


class TokenEmbedding(Module):
    """One vector [E] per entry of a vocabulary."""

    options: Options
    size: int
    init: Callable | None = None  # of the table, instead of that of `model.init`

    def setup(self):
        shape = (padded_rows(self.size), *self._parts, self.options.table_width)
        self.table = self.param("embedding", self.table_init, shape)

    @property
    def table_VE(self) -> jax.Array:  # noqa: N802 (an array, by its dims)
        """The table; if it is quantised, with the values of its integers."""
        if is_stored(self.table):
            return self._summed(self.table[VALUES] * self.table[SCALE])
        return self._summed(self._quantized(self.table))

    def _quantized(self, rows: jax.Array) -> jax.Array:
        kind = self.options.quantization
        if kind == "none":
            return rows
        return quantize_rows(within(rows, self.options.quantization_clip), kind)

    @property
    def _parts(self) -> tuple[int, ...]:
        """The dims of a table between its rows and their width: its two summands."""
        return (2,) if self.options.quantization == SPLIT else ()

    def _summed(self, rows: jax.Array) -> jax.Array:
        return sum_parts(rows) if self._parts else rows

    @property
    def table_init(self) -> Callable:
        """The initialiser of the table."""
        options = self.options
        std = 1.0 if options.init == "t5" else table_std(options)
        axes = ("vocab", *(None for _ in self._parts), "embed")
        return self.init or normal(options, std, *axes)

    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L, E]."""
        options = self.options
        if is_stored(self.table):
            found = (lookup(self.table[name], token_BL) for name in (VALUES, SCALE))
            x_BLE = jnp.multiply(*found)
        else:
            x_BLE = self._quantized(lookup(self.table, token_BL, "vocab"))
        x_BLE = self._summed(x_BLE)
        return x_BLE * options.width**0.5 if options.scale_embeddings else x_BLE


class DifferenceEmbedding(TokenEmbedding):
    """The vectors of another table, without gradient, plus learned differences.

    This is gradient-disentangled embedding sharing (He et al. 2023, DeBERTaV3, section
    3.3); differences are initially 0.

    Attributes:
      base: the module of the other table.
    """

    base: Any = None

    def setup(self):
        init = constant(0.0, "vocab", "embed")
        shape = (padded_rows(self.size), self.options.table_width)
        self.difference = self.param("difference", init, shape)

    @property
    def table_VE(self) -> jax.Array:  # noqa: N802 (an array, by its dims)
        """The sum of both tables."""
        return jax.lax.stop_gradient(self.base.table_VE) + self.difference

    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L, E]."""
        x_BLE = jax.lax.stop_gradient(self.base(token_BL))
        scale = self.options.width**0.5 if self.options.scale_embeddings else 1.0
        return x_BLE + scale * lookup(self.difference, token_BL, "vocab")


def embed_by_table(
    options: Any, size: int, name: str | None = None, *, has_vectors: bool = False
) -> TokenEmbedding:
    """The embeddings of a network with `table_range`, for use in its `setup`."""
    init = range_init(options, has_vectors=has_vectors)
    return TokenEmbedding(options, size, init, name=name)


def range_init(options: Any, *, has_vectors: bool) -> Callable | None:
    """The initialiser of the tables of a network with `table_range`.

    Args:
      has_vectors: given vectors are added to the rows, which are then initially 0.

    Returns:
      The initialiser; None: that of model.init.
    """
    if has_vectors:
        return constant(0.0, "vocab", "embed")
    return uniform(bound, "vocab", "embed") if (bound := options.table_range) else None


def table_std(options: Options) -> float:
    """The initial standard deviation of a table, unless the scheme has another."""
    return options.table_width**-0.5 if options.init == "xlm" else 0.02
