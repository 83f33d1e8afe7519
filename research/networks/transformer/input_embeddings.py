"""The input embeddings of a transformer: tokens or queries, positions, token types."""

# B batch, L length, E embedding width, F width of given vectors

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.contract.batch import FEATURE
from research.networks.shared.dense import (
    STATE_AXES,
    Module,
    Norm,
    dropout,
    normal,
)
from research.networks.shared.embeddings import lookup, table_std
from research.networks.shared.options import Options
from research.networks.transformer import feature_layers
from research.networks.transformer.options import TransformerOptions


class QueryEmbedding(Module):
    """The vector [E] that queries of the query stream read instead of a token.

    XLNet's queries know the position of their target but not its token (Yang et al.
    2019, section 2.3; `mask_emb` in the released modeling.py, with TensorFlow's default
    initialiser, Glorot's).
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


class InputEmbedding(Module):
    """Adds embeddings of positions and token types to those of tokens; then a norm.

    A position's vector (`batch.FEATURE`) is projected (`model.feature_layers`) and
    added; a position without one adds nothing.

    Relative token types (`model.token_type_encoding`) have no embedding: attention
    reads them.
    """

    options: TransformerOptions

    @nn.compact
    def __call__(
        self, x_BLE: jax.Array, group: Mapping, *, length: int, bare: bool = False
    ) -> jax.Array:
        """[B, L, E] from token embeddings [B, L, E] and the group's arrays.

        Args:
          length: number of positions that the network reads.
          bare: only positions are added, without a norm.

        Raises:
          UserError: `model.position` has fewer positions than `length`.
        """
        options, x = self.options, x_BLE
        width = x.shape[-1]
        if FEATURE in group:
            projection = feature_layers.FOLDER.make(vars(options), "feature_layers")
            feature = group[FEATURE].astype(x.dtype)
            x = x + projection.project(feature, group, options, width)
        x = options.scheme.embed(self, x, group["position"], length)
        if bare:
            return x.astype(options.dtype)
        if options.token_types and options.token_type_encoding == "absolute":
            shape = (options.token_types, width)
            init = normal(options, table_std(options), None, "embed")
            table = self.param("token_type", init, shape)
            x = x + lookup(table, group["token_type"])
        if options.has_embedding_norm:
            x = Norm(options, name="norm")(x)
        return dropout(self, x.astype(options.dtype), "embedding")
