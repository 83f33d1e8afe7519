"""Transformer-XL's relative positions, by distance; mems need them.

The logit of a query q at position i and a key k at position j is
(q + u) . k + (q + v) . W r(i - j), where r(d) are sines and cosines of d (Dai et al.
2019, section 3.3). The projection W is a parameter of each layer; so are the biases u
and v, unless all layers share them (`model.shared_relative_biases`).

Since sin(i - j) = sin i cos j - cos i sin j, and similarly for cosines, the second term
is the product of a function of the query with a function of only the position j. So it
is exact for any positions and needs neither a table of distances nor a gather. Dropout
of r (`model.position_dropout`) applies to the function of the position j, once per
stack: a dropped sine or cosine is missing at all distances from j, whereas XLNet's
released code drops those of one distance in a row.

With a table of distances the second term is a product with r(i - j) itself, whose rows
are then shifted (Dai et al. 2019, appendix B). Dropout applies to r, which all rows and
layers share, and distances may be clamped (released mem_transformer.py, `clamp_len`).
"""

# B batch, L queries, M keys, N mems, H heads, K head width, D width, R distances,
# P scored positions

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from research.contract.errors import UserError
from research.contract.fields import choice
from research.networks.shared.dense import dropout, normal
from research.networks.shared.options import dropout_rate
from research.networks.shared.positions import sinusoid_angles, sinusoids
from research.networks.shared.products import dense_matmul
from research.networks.transformer import positions


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """It has distances to mems."""

    position_dropout: float = dropout_rate(0.0)  # of sines and cosines
    position_dropout_unit: str = choice("position", ("position", "distance"))  # what
    # sines and cosines are dropped of: a key's position, in one row; a distance, in all
    # rows (Transformer-XL)

    query_biases = ("position_bias", "content_bias")
    has_mems = True

    def check(self, options):
        if options.width % 2:
            raise UserError(
                "model.position relative needs an even model.width, not "
                f"{options.width}"
            )

    def check_needs(self, options, needs):
        if self._drops_distances(options) and needs.pattern != "causal":
            raise UserError(
                "model.position_dropout_unit distance needs rows in the order of their "
                f"positions, but the pattern of this objective is {needs.pattern}; set "
                "model.position_dropout_unit=position"
            )

    def features(self, options):
        return ("relative", *["distance_dropout"] * self._drops_distances(options))

    def prepare(self, stack, options, inputs):
        """Functions of all positions, or the table [R, D] if there is one of distances.

        Mems precede the first position in steps of the difference of the first two, so
        that they have larger positions in rows with decreasing positions.
        """
        query_BL, key_BM = inputs.query["position"], inputs.key["position"]
        dtype, mems = jnp.dtype(options.dtype), inputs.mems_segment
        num_mems = 0 if mems is None else mems.shape[1]
        drop = partial(dropout, stack, place="position")
        drops = self._drops_distances(options) and stack.has_rng("dropout")
        if drops or inputs.clamp_len:
            lengths = query_BL.shape[1], num_mems + key_BM.shape[1], num_mems
            distance_R = _distances(*lengths, inputs)
            table = sinusoids(distance_R[None], options.width)[0]
            return positions.Prepared(table=drop(table.astype(dtype)))
        # Relative to the first position: float32 cannot tell large neighbours apart.
        first_B1 = query_BL[:, :1]
        position_BL = query_BL - first_B1
        step_B1 = position_BL[:, 1:2] if position_BL.shape[1] > 1 else 1 + position_BL
        mems_BN = step_B1 * jnp.arange(-num_mems, 0)[None]
        position_BM = jnp.concatenate([mems_BN, key_BM - first_B1], axis=1)
        key = _waves(position_BM, options.width).astype(dtype)
        return positions.Prepared(_waves(position_BL, options.width), drop(key))

    def at(self, prepared, scored_BP):
        if prepared.table is None:
            return super().at(prepared, scored_BP)
        return prepared._replace(query=scored_BP)

    def logits(self, terms, layer, prepared):
        """With a table of distances the term is logits, else it has factors."""
        options, table_RD = terms.options, prepared.table
        query_BLHK = (layer.query + layer.biases["position_bias"]) * layer.scale
        init = normal(options, 0.02, "embed", "heads")
        shape = (options.width, options.attention_width)
        kernel = terms.param("kernel", init, shape)
        if table_RD is None:
            term = _rotate(options, query_BLHK, kernel, prepared.query), prepared.key
        else:
            distance_RE = dense_matmul(table_RD, kernel, options.operand_dtype)
            distance_RHK = distance_RE.reshape(-1, *query_BLHK.shape[2:])
            query_BLHK, distance_RHK = (
                each.astype(options.operand_dtype)
                for each in (query_BLHK, distance_RHK)
            )
            num_keys = layer.key.shape[1]
            term = _distance_logits(query_BLHK, distance_RHK, prepared.query, num_keys)
        return (layer.query + layer.biases["content_bias"]) * layer.scale, term

    def _drops_distances(self, options):
        """Whether there is dropout of distances, which only dense attention has."""
        is_distance = self.position_dropout_unit == "distance"
        return is_distance and options.dropout_rate("position") > 0


def _distances(num_queries, num_keys, num_mems, inputs):
    """[R]: the distances of the last query from all keys, then those of future keys.

    Query l has those of the last one except the first L - 1 - l, so R = L + M.
    """
    assert inputs.pattern == "causal", "else indices are no positions"
    last = num_mems + num_queries - 1
    distance_R = last - jnp.arange(num_queries + num_keys)
    return jnp.minimum(distance_R, inputs.clamp_len or last)


def _waves(position_BL, width):
    angle_BLD = sinusoid_angles(position_BL, width)
    return jnp.concatenate([jnp.cos(angle_BLD), jnp.sin(angle_BLD)], axis=-1)


def _rotate(options, query_BLHK, kernel, sinusoids_BLD):
    """[B, L, H, D]: W^T (q + v), rotated by the angles of the query's position."""
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
