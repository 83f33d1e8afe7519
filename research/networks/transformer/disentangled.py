"""Disentangled attention: logits of contents, and of contents with distances.

The logit of a query at position i and a key at position j is
(q . k + q . K r + Q r . k) / sqrt(3 x head width), where r is the row of a table for
the bucket of i - j, and Q and K are the projections of states to queries and keys (He
et al. 2021, equation 4, with the shared projections of later releases; the index is
i - j in both terms, as in disentangled_attention.py and in LTG-BERT). All layers share
the table.
"""

# B batch, L queries, M keys, H heads, K head width, D width, R buckets

import jax
import jax.numpy as jnp

from research.networks.shared.dense import Module, Norm, normal
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.positions import log_bucket
from research.networks.shared.products import einsum
from research.networks.transformer.options import TransformerOptions as Options


def distance_bucket(options: Options, inputs: AttentionInputs) -> jax.Array:
    """[B, L, M] int32: the row of the table for the distance of query and key."""
    query_BL, key_BM = inputs.query["position"], inputs.key["position"]
    distance_BLM = query_BL[:, :, None] - key_BM[:, None, :]
    num_buckets = options.distance_buckets
    bucket = log_bucket(distance_BLM, num_buckets, options.largest_distance)
    return bucket + num_buckets - 1


def distance_table(module: Module, options: Options) -> jax.Array:
    """[R, D]: the normed vectors of the buckets, as parameters of a stack."""
    init = normal(options, 0.02, None, "embed")
    shape = (2 * options.distance_buckets - 1, options.width)
    table_RD = module.param("distance", init, shape)
    norm = Norm(options, scaled=True, name="distance_norm")
    return norm(table_RD.astype(options.dtype))


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
      query_BLHK, key_BMHK: of the states, scaled.
      query_RHK, key_RHK: of the table.
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
