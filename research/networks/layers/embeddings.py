"""The input embeddings of tokens, positions and token types."""

# B batch, L length, E embedding width, V rows with padding

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.errors import UserError
from research.networks.layers.dense import STATE_AXES, Module, Norm, dropout, normal
from research.networks.layers.options import Options
from research.networks.layers.positions import sinusoids
from research.networks.transformer import Network

VOCAB_MULTIPLE = 128
"""The rows of token tables are padded to a multiple of this."""


def lookup(table: jax.Array, index: jax.Array, rows: str | None = None) -> jax.Array:
    """Rows of a table.

    The table's width is constrained not to be sharded during the lookup; otherwise XLA
    rematerialises the whole table.

    Args:
      rows: the logical name of the table's rows, if it has one.
    """
    table = nn.with_logical_constraint(table, (rows, None))
    found = jnp.take(table, index, axis=0, mode="clip")
    return nn.with_logical_constraint(found, STATE_AXES)


class TokenEmbedding(Module):
    """One vector [E] for each entry of a vocabulary."""

    options: Options
    size: int

    def setup(self):
        options = self.options
        num_rows = -(-self.size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
        std = 1.0 if options.init == "t5" else _std(options)
        shape = (num_rows, options.table_width)
        init = normal(options, std, "vocab", "embed")
        self.table_VE = self.param("rows", init, shape)

    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L, E]."""
        x_BLE = lookup(self.table_VE, token_BL, "vocab")
        options = self.options
        return x_BLE * options.width**0.5 if options.scale_embeddings else x_BLE


class QueryEmbedding(Module):
    """The vector [E] that stands for the token of every query that is no key.

    XLNet's queries know the position of their target, and no token (Yang et al. 2019,
    section 2.3; `mask_emb` in the released modeling.py, where it has TensorFlow's
    default initial values, Glorot's).
    """

    options: Options

    @nn.compact
    def __call__(self, batch: int, count: int) -> jax.Array:
        """[B, count, E]."""
        init = nn.with_logical_partitioning(
            nn.initializers.glorot_uniform(), (None, "embed")
        )
        vector_1E = self.param("vector", init, (1, self.options.table_width))
        shape = (batch, count, self.options.table_width)
        x_BKE = jnp.broadcast_to(vector_1E[None], shape)
        return nn.with_logical_constraint(x_BKE, STATE_AXES)


def _std(options: Options) -> float:
    """The initial standard deviation of a table, unless the scheme has another."""
    return options.table_width**-0.5 if options.init == "xlm" else 0.02


class InputEmbedding(Module):
    """Adds embeddings of positions and token types to those of tokens; then the norm.

    Relative token types (`model.token_type_encoding`) have no embedding: they are part
    of attention.
    """

    options: Network

    @nn.compact
    def __call__(self, x_BLE: jax.Array, group: Mapping, *, length: int) -> jax.Array:
        """[B, L, E] from token embeddings [B, L, E] and the group's arrays.

        Args:
          length: positions that a table of learned positions must have.

        Raises:
          UserError: the table of learned positions is shorter than that.
        """
        options, x = self.options, x_BLE
        width = x.shape[-1]
        if options.position == "learned":
            if length > options.max_length:
                raise UserError(
                    f"model.max_length is {options.max_length}, but the network reads "
                    f"{length} positions (data.length, and what the objective adds); "
                    "it must be at least that"
                )
            std = 0.01 if options.init == "gpt2" else _std(options)
            shape = (options.max_length, width)
            init = normal(options, std, None, "embed")
            table = self.param("position", init, shape)
            x = x + lookup(table, group["position"])
        elif options.position == "sinusoidal":
            x = x + sinusoids(group["position"], width)
        if options.token_types and options.token_type_encoding == "absolute":
            shape = (options.token_types, width)
            init = normal(options, _std(options), None, "embed")
            table = self.param("kind", init, shape)  # its name in every checkpoint
            x = x + lookup(table, group["token_type"])
        if options.has_embedding_norm:
            x = Norm(options, name="norm")(x)
        return dropout(self, x.astype(options.dtype), "embedding")
