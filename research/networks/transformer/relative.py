"""Relative terms of attention logits: Transformer-XL's positions, XLNet's segments.

The logit of a query q at position i and a key k at position j is
(q + u) . k + (q + v) . W r(i - j), where r(d) are sines and cosines of d (Dai et al.
2019, section 3.3). With relative token types it also has the term (q + b) . s, where s
is one of two vectors: for keys of the query's own type, and for keys of another (Yang
et al. 2019, section 2.5). The projection W and the vectors s are parameters of each
layer; so are the biases u, v and b, unless all layers share them
(`model.shared_relative_biases`).

Since sin(i - j) = sin i cos j - cos i sin j, and likewise for cosines, the second term
is the product of a function of the query with a function of the position j alone. So it
is exact for any positions and needs neither a table of distances nor a gather. Dropout
of r (`model.position_dropout`) is that of the function of the position j, once for a
stack: a sine or cosine that is dropped is missing at all distances from j, where the
released code of XLNet drops those of one distance in a row.

With a table of distances (`AttentionInputs.by_distance`) the second term is a product
with r(i - j) itself, whose rows are then shifted (Dai et al. 2019, appendix B). Dropout
is that of r, which all rows and layers share, and distances may have a largest value
(released mem_transformer.py, `clamp_len`).
"""

# B batch, L queries, M keys, N mems, H heads, K head width, D width, C token types,
# R distances, P scored positions

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.networks.shared.dense import Module, normal
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.positions import (
    sinusoid_angles,
    sinusoids,
)
from research.networks.shared.products import dense_matmul, einsum
from research.networks.transformer.options import TransformerOptions as Options


class RelativeFeatures(NamedTuple):
    """Functions of the queries or keys of a stack; None: not part of the logits."""

    sinusoids: jax.Array | None = None  # [B, L, D] cos, sin of relative positions
    token_type: jax.Array | None = None  # [B, L, C] one-hot, of relative token types
    distances: jax.Array | None = None  # [R, D] sin, cos of distances, of keys
    index: jax.Array | None = None  # [B, P], if not of all queries, with distances


def relative_features(
    options: Options, inputs: AttentionInputs
) -> tuple[RelativeFeatures, RelativeFeatures]:
    """The features of queries, and of mems and keys; all of them have positions.

    Mems precede the first position at the distance of the first two positions from each
    other, so that in rows with decreasing positions they have larger positions. Their
    token type is 0.
    """
    query, key = RelativeFeatures(), RelativeFeatures()
    query_position_BL = inputs.query["position"]
    key_position_BM = inputs.key["position"]
    dtype, mems = jnp.dtype(options.dtype), inputs.mems_segment
    num_mems = 0 if mems is None else mems.shape[1]
    one_hot = partial(jax.nn.one_hot, num_classes=options.token_types, dtype=dtype)
    if options.position == "relative" and inputs.by_distance:
        num_keys = num_mems + key_position_BM.shape[1]
        table = _distances(query_position_BL.shape[1], num_keys, num_mems, inputs)
        table = sinusoids(table[None], options.width)[0]
        key = key._replace(distances=table.astype(dtype))
    elif options.position == "relative":
        # Relative to the first position: float32 cannot tell large neighbours apart.
        first_B1 = query_position_BL[:, :1]
        position_BL = query_position_BL - first_B1
        step_B1 = position_BL[:, 1:2] if position_BL.shape[1] > 1 else 1 + position_BL
        mems_BN = step_B1 * jnp.arange(-num_mems, 0)[None]
        position_BM = jnp.concatenate([mems_BN, key_position_BM - first_B1], axis=1)
        waves = partial(_waves, width=options.width)
        query = query._replace(sinusoids=waves(position_BL))
        key = key._replace(sinusoids=waves(position_BM).astype(dtype))
    if options.token_type_encoding == "relative":
        mems_BN = jnp.zeros((len(query_position_BL), num_mems), jnp.int32)
        type_BM = jnp.concatenate([mems_BN, inputs.key["token_type"]], axis=1)
        query = query._replace(token_type=one_hot(inputs.query["token_type"]))
        key = key._replace(token_type=one_hot(type_BM))
    return query, key


def _distances(num_queries, num_keys, num_mems, inputs):
    """[R]: the distances of the last query from all keys, then those of future keys.

    Query l has those of the last one but for the first L - 1 - l, so R = L + M.
    """
    assert inputs.pattern == "causal", "else indices are no positions"
    last = num_mems + num_queries - 1
    distance_R = last - jnp.arange(num_queries + num_keys)
    return jnp.minimum(distance_R, inputs.clamp_len or last)


def _waves(position_BL, width):
    angle_BLD = sinusoid_angles(position_BL, width)
    return jnp.concatenate([jnp.cos(angle_BLD), jnp.sin(angle_BLD)], axis=-1)


def relative_biases(module: Module) -> dict[str, jax.Array]:
    """The biases u, v and b [heads x head width], as parameters of the module."""
    options, names = module.options, []
    if options.position == "relative":
        names += ["position_bias", "content_bias"]
    if options.token_type_encoding == "relative":
        names += ["segment_bias"]
    init, shape = normal(options, 0.02, "heads"), (options.attention_width,)
    return {name: module.param(name, init, shape) for name in names}


class RelativeTerms(Module):
    """The parameters of one layer's relative terms.

    Attributes:
      scale: factor of all logits.
    """

    options: Options
    scale: float

    @nn.compact
    def __call__(
        self,
        query_BLHK: jax.Array,
        key_BMHK: jax.Array,
        query_features: RelativeFeatures,
        key_features: RelativeFeatures,
        shared_biases: Mapping[str, jax.Array] | None = None,
    ):
        """The factors of the logits.

        Args:
          shared_biases: as `relative_biases` makes them; None: each layer has its own.

        Returns:
          query [B, L, H, any] and key [B, M, H, any], whose product is the content term
            and that of token types;
          q_rel [B, L, H, D] and k_rel [B, M, D], whose product is the position term;
            with a table of distances this term [B, H, L, M] itself; None without
            relative positions.
        """
        options, query, relative = self.options, query_BLHK, None
        biases = shared_biases or relative_biases(self)
        biases_11HK = {
            name: bias.astype(query.dtype).reshape(
                1, 1, options.heads, options.key_width
            )
            for name, bias in biases.items()
        }
        if options.position == "relative":
            query_rel = (query + biases_11HK["position_bias"]) * self.scale
            relative = self._position_term(
                query_rel, query_features, key_features, key_BMHK.shape[1]
            )
            query = query + biases_11HK["content_bias"]
        query, key = query * self.scale, key_BMHK
        if options.token_type_encoding == "relative":
            type_logits_BLHC = self._token_type_logits(
                query_BLHK + biases_11HK["segment_bias"], query_features.token_type
            )
            type_BMHC = jnp.broadcast_to(
                key_features.token_type[:, :, None],
                (*key.shape[:3], options.token_types),
            )
            query = jnp.concatenate([query, type_logits_BLHC], axis=-1)
            key = jnp.concatenate([key, type_BMHC], axis=-1)
        return query, key, relative

    def _position_term(self, query_BLHK, query_features, key_features, num_keys):
        """The factors of the position term, or with a table of distances the term."""
        options, table_RD = self.options, key_features.distances
        init = normal(options, 0.02, "embed", "heads")
        kernel = self.param("kernel", init, (options.width, options.attention_width))
        if table_RD is None:
            query_rel = self._rotate(query_BLHK, kernel, query_features.sinusoids)
            return query_rel, key_features.sinusoids
        distance_RE = dense_matmul(table_RD, kernel, options.operand_dtype)
        distance_RHK = distance_RE.reshape(-1, *query_BLHK.shape[2:])
        query_BLHK, distance_RHK = (
            each.astype(options.operand_dtype) for each in (query_BLHK, distance_RHK)
        )
        index_BP = query_features.index
        return _distance_logits(query_BLHK, distance_RHK, index_BP, num_keys)

    def _rotate(self, query_BLHK, kernel, sinusoids_BLD):
        """[B, L, H, D]: W^T (q + v), rotated by the angles of the query's position."""
        options = self.options
        kernel_HKD = jnp.moveaxis(
            kernel.reshape(-1, options.heads, options.key_width), 0, 2
        )
        by_head = partial(dense_matmul, operand_dtype=options.operand_dtype)
        by_head = jax.vmap(by_head, in_axes=(2, 0), out_axes=2)
        both_BLHD = by_head(query_BLHK, kernel_HKD).astype(jnp.float32)
        sine, cosine = jnp.split(both_BLHD, 2, axis=-1)
        cos, sin = jnp.split(sinusoids_BLD[:, :, None], 2, axis=-1)
        rotated = (cosine * cos + sine * sin, cosine * sin - sine * cos)
        return jnp.concatenate(rotated, axis=-1).astype(query_BLHK.dtype)

    def _token_type_logits(self, query_BLHK, token_type_BLC):
        """[B, L, H, C]: what is added to the logits of keys of each token type.

        The logits of the other types are subtracted from all: a constant added to all
        logits cancels in the softmax.
        """
        options = self.options
        init = normal(options, 0.02, None, "heads")
        vectors = self.param("segment", init, (2, options.attention_width))
        same, other = vectors.astype(query_BLHK.dtype)
        difference_HK = (same - other).reshape(options.heads, options.key_width)
        query, difference = (
            each.astype(options.operand_dtype)
            for each in (query_BLHK * self.scale, difference_HK)
        )
        logits_BLH = einsum("blhk,hk->blh", query, difference).astype(query_BLHK.dtype)
        return logits_BLH[..., None] * token_type_BLC[:, :, None]


def _distance_logits(query_BLHK, distance_RHK, index_BP, num_keys):
    """[B, H, L, M] float32: the logits of query l and key m, at distance l - m.

    Args:
      query_BLHK: all queries of a row, unless `index_BP` are their positions in it.
      distance_RHK: of the distances of all queries, see `_distances`.
      num_keys: M.
    """
    product = partial(jnp.einsum, preferred_element_type=jnp.float32)
    logits_BHLR = product("blhk,rhk->bhlr", query_BLHK, distance_RHK)
    if index_BP is not None:
        first_BP = len(distance_RHK) - num_keys - 1 - index_BP
        index_BPM = first_BP[..., None] + jnp.arange(num_keys)[None, None]
        return jnp.take_along_axis(logits_BHLR, index_BPM[:, None], axis=-1)
    # In the order of memory, rows that are one shorter are each shifted by one more.
    *dims, length, width = logits_BHLR.shape
    flat = logits_BHLR.reshape(*dims, length * width)
    flat = flat[..., length - 1 : length * width - 1]
    return flat.reshape(*dims, length, width - 1)[..., :num_keys]
