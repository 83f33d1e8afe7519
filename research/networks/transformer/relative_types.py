"""XLNet's relative token types: a term of attention logits (`token_type_encoding`).

The logit of a query q and a key has the term (q + b) . s, where s is one of two
vectors: for keys of the query's own type, and for keys of another (Yang et al. 2019,
section 2.5). The vectors s are parameters of each layer; so is the bias b, unless all
layers share it (`model.shared_relative_biases`).
"""

# B batch, L queries, M keys, N mems, H heads, K head width, C token types

from functools import partial

import jax
import jax.numpy as jnp

from research.networks.shared.dense import Module, normal
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.products import einsum
from research.networks.transformer.options import TransformerOptions as Options
from research.networks.transformer.positions import Layer

QUERY_BIAS = "segment_bias"


def one_hot_types(
    options: Options, inputs: AttentionInputs
) -> tuple[jax.Array, jax.Array]:
    """One-hot types of queries [B, L, C], and of mems and keys [B, N + M, C].

    Types of mems are 0.
    """
    query_BL, key_BM = inputs.query["token_type"], inputs.key["token_type"]
    if (mems := inputs.mems_segment) is not None:
        key_BM = jnp.concatenate([jnp.zeros_like(mems), key_BM], axis=1)
    count, dtype = options.token_types, jnp.dtype(options.dtype)
    one_hot = partial(jax.nn.one_hot, num_classes=count, dtype=dtype)
    return one_hot(query_BL), one_hot(key_BM)


def add_types(
    terms: Module,
    layer: Layer,
    scaled_BLHK: jax.Array,
    query_type_BLC: jax.Array,
    key_type_BMC: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Wider queries and keys, whose product also has the term of token types.

    The logits of other types are subtracted from all: a constant added to all logits
    cancels in the softmax.

    Args:
      terms: has the vectors s.
      scaled_BLHK: the layer's queries, including what is added to them.
    """
    options = terms.options
    query_BLHK = layer.query + layer.biases[QUERY_BIAS]
    init = normal(options, 0.02, None, "heads")
    vectors = terms.param("segment", init, (2, options.attention_width))
    same, other = vectors.astype(query_BLHK.dtype)
    difference_HK = (same - other).reshape(options.heads, options.key_width)
    query, difference = (
        each.astype(options.operand_dtype)
        for each in (query_BLHK * layer.scale, difference_HK)
    )
    logits_BLH = einsum("blhk,hk->blh", query, difference).astype(query_BLHK.dtype)
    logits_BLHC = logits_BLH[..., None] * query_type_BLC[:, :, None]
    type_BMHC = jnp.broadcast_to(
        key_type_BMC[:, :, None], (*layer.key.shape[:3], options.token_types)
    )
    return (
        jnp.concatenate([scaled_BLHK, logits_BLHC], axis=-1),
        jnp.concatenate([layer.key, type_BMHC], axis=-1),
    )
