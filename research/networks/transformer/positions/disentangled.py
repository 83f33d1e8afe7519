"""Disentangled attention to contents and distances (DeBERTa, He et al. 2021).

The logit of a query at position i and a key at position j is
(q . k + q . K r + Q r . k) / sqrt(3 x head width), where r is the row of a table for
the bucket of i - j, and Q and K are the projections of states to queries and keys (He
et al. 2021, equation 4, with the shared projections of later releases; the index is
i - j in both terms, as in disentangled_attention.py and in LTG-BERT). All layers share
the table.
"""

# B batch, L queries, M keys, H heads, K head width, D width, R buckets

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from research.contract.errors import UserError
from research.contract.fields import number
from research.networks.shared.dense import Norm, normal
from research.networks.shared.options import dropout_rate
from research.networks.shared.products import einsum
from research.networks.transformer import positions


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """Distances share the states' projections and one table for all layers."""

    position_dropout: float = dropout_rate(0.0)  # of the table
    distance_buckets: int = number(32, least=4, most=2**16)  # to each side of a query,
    # an even number: one per distance up to half of them, then ever larger ones up to
    # the largest distance
    largest_distance: int = number(512, least=4)  # the largest that buckets distinguish
    # is one less

    def check(self, options):
        buckets, most = self.distance_buckets, self.largest_distance
        if buckets % 2 or buckets // 2 + 1 >= most:
            raise UserError(
                "model.distance_buckets must be even, and less than twice "
                f"model.largest_distance, got {buckets} and {most}"
            )
        if options.qk_norm or options.init == "t5":
            raise UserError(
                "model.position disentangled needs model.qk_norm False and another "
                f"model.init than t5, got {options.qk_norm} and {options.init}"
            )

    def features(self, options):
        return ("logits",)

    def prepare(self, stack, options, inputs):
        """The row of the table for each distance [B, L, M], and the table [1, R, D]."""
        query_BL, key_BM = inputs.query["position"], inputs.key["position"]
        distance_BLM = query_BL[:, :, None] - key_BM[:, None, :]
        num_buckets = self.distance_buckets
        bucket = log_bucket(distance_BLM, num_buckets, self.largest_distance)
        init = normal(options, 0.02, None, "embed")
        shape = (2 * num_buckets - 1, options.width)
        table_RD = stack.param("distance", init, shape)
        norm = Norm(options, scaled=True, name="distance_norm")
        table_RD = norm(table_RD.astype(options.dtype))
        return positions.Prepared(query=bucket + num_buckets - 1, table=table_RD[None])

    def logits(self, terms, layer, prepared):
        scale = (3 * layer.query.shape[-1]) ** -0.5
        query, key, table = layer.query * scale, layer.key * scale, prepared.table
        table = layer.drop(table)
        of_query, of_key = (layer.project(name, table) for name in ("query", "key"))
        dtype = terms.options.operand_dtype
        added = disentangled_logits(
            *(query, key, of_query, of_key, prepared.query), dtype=dtype
        )
        return query, added


def disentangled_logits(
    query_BLHK: jax.Array,
    key_BMHK: jax.Array,
    query_RHK: jax.Array,
    key_RHK: jax.Array,
    bucket_BLM: jax.Array,
    dtype: str,
) -> jax.Array:
    """[B, H, L, M] float32: the terms of distances.

    Args:
      query_BLHK, key_BMHK: from the states, scaled.
      query_RHK, key_RHK: from the table.
      dtype: of the operands of products.
    """
    states = (query_BLHK, key_BMHK, query_RHK, key_RHK)
    query_BLHK, key_BMHK, query_RHK, key_RHK = (x.astype(dtype) for x in states)
    of_query_BHLR = einsum("blhk,rhk->bhlr", query_BLHK, key_RHK)
    of_key_BHMR = einsum("bmhk,rhk->bhmr", key_BMHK, query_RHK)
    bucket_BML = jnp.swapaxes(bucket_BLM, 1, 2)

    def pick(logits, bucket):
        return jnp.take_along_axis(logits, bucket[:, None], axis=-1, mode="clip")

    of_key_BHML = pick(of_key_BHMR, bucket_BML)
    return pick(of_query_BHLR, bucket_BLM) + jnp.swapaxes(of_key_BHML, 2, 3)


def log_bucket(distance: Any, num_buckets: int, largest: int) -> Any:
    """DeBERTa's bucket of each distance, int32 of the same shape.

    Distances up to half of the buckets have one each; larger ones share buckets that
    grow logarithmically up to `largest` - 1, which is in the last, `num_buckets` - 1;
    buckets to the other side are negative (He et al. 2021, the released da_utils.py,
    make_log_bucket_position). Bounds are integers, as in `relative_bucket`.
    """
    middle, absolute = num_buckets // 2, jnp.abs(distance)
    bucket = jnp.minimum(absolute, middle)
    for step in range(middle - 1):
        power = ((largest - 1) / middle) ** (step / (middle - 1))
        bucket = bucket + (absolute > math.floor(middle * power + 1e-9))
    return (jnp.sign(distance) * bucket).astype(jnp.int32)
