"""Tables: vectors of tokens, and what places add to them."""

# B batch, L length, E width of tables, V rows with padding

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.errors import UserError
from research.models.layers.dense import RESIDUAL, Norm, dropout, normal
from research.models.layers.positions import sinusoids
from research.models.options import Options

ROW = 128
"""Tables over the vocabulary have a multiple of this many rows."""


def lookup(table: jax.Array, index: jax.Array, rows: str | None = None) -> jax.Array:
    """Rows of a table, whose width is whole meanwhile, or XLA would rematerialise.

    Args:
      rows: the logical name of the table's rows, where it has one.
    """
    table = nn.with_logical_constraint(table, (rows, None))
    found = jnp.take(table, index, axis=0, mode="clip")
    return nn.with_logical_constraint(found, RESIDUAL)


class Table(nn.Module):
    """One vector [E] for each entry of a vocabulary."""

    options: Options
    size: int

    def setup(self):
        rows = -(-self.size // ROW) * ROW
        std = 1.0 if self.options.init == "t5" else 0.02
        shape = (rows, self.options.table_width)
        init = normal(self.options, std, "vocab", "embed")
        self.rows = self.param("rows", init, shape)

    def __call__(self, token):
        """[B, L, E] of token [B, L]."""
        return lookup(self.rows, token, "vocab")


class Embed(nn.Module):
    """What places add to their tokens: position, kind, and a norm where there is one.

    Relative kinds (`model.token_type_encoding`) are no vectors of places; attention reads them.
    """

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
            init = normal(options, std, None, "embed")
            table = self.param("position", init, shape)
            x = x + lookup(table, group["position"])
        elif options.position == "sinusoidal":
            x = x + sinusoids(group["position"], width)
        if options.token_types and options.token_type_encoding == "absolute":
            shape = (options.token_types, width)
            init = normal(options, 0.02, None, "embed")
            table = self.param("token_type", init, shape)
            x = x + lookup(table, group["token_type"])
        if options.has_embedding_norm:
            x = Norm(options, name="norm")(x)
        return dropout(self, x.astype(options.dtype))
