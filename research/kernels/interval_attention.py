"""Softmax attention of queries to intervals of keys, by kernels for a TPU.

Memory is linear in the length: no [L, M] array exists, forward or backward. Tiles of
keys that no query of a tile attends to are neither read nor computed.
"""

# B batch, L queries, M keys, H heads, G key heads, K width of queries and keys, V of
# values, F of relative terms, P steps of the bias

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from research.kernels.backward import key_gradient, query_gradient
from research.kernels.forward import forward
from research.kernels.plan import Order, Plan, Settings, fill_tile, permute
from research.kernels.tile import Inputs, make_scalars


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def interval_attention(
    settings: Settings,
    query_BLHK: jax.Array,
    key_BMGK: jax.Array,
    value_BMGV: jax.Array,
    bias_PH: jax.Array | None,
    plan: Plan,
    seeds_BH: jax.Array | None = None,
    query_rel_BLHF: jax.Array | None = None,
    key_rel_BMF: jax.Array | None = None,
) -> jax.Array:
    """[B, L, H, V]: softmax attention in float32; a query without keys outputs 0.

    Args:
      settings: with the tiles of the plan.
      query_BLHK: already scaled.
      key_BMGK, value_BMGV: G divides H; H / G heads of queries share a head of keys.
      bias_PH: optional bias of the logits, float32, a step function of the distance
        (key position - query position): value p is that of distances from bound p - 1
        to below bound p of settings.bias_bounds. The plan then has distances.
      plan: `research.kernels.plan.make_plan` of these queries and keys.
      seeds_BH: `research.kernels.counter_dropout.dropout_seeds`, if the settings have
        dropout.
      query_rel_BLHF, key_rel_BMF: optional relative terms, whose product is added to
        the logits; no gradient flows to those of keys.
    """
    arguments = query_BLHK, key_BMGK, value_BMGV, bias_PH, plan, seeds_BH
    relative = query_rel_BLHF, key_rel_BMF
    return _interval_attention_fwd(settings, *arguments, *relative)[0]


def _interval_attention_fwd(
    settings, query, key, value, bias, plan, seeds, query_rel, key_rel
):
    tiles, distances = settings.tiles, plan.distances
    inputs = Inputs(
        query=_in_tiles(query, plan.query_order, tiles.query),
        key=_in_tiles(key, plan.key_order, tiles.key),
        value=_in_tiles(value, plan.key_order, tiles.key),
        interval=plan.interval,
    )
    if bias is not None:
        inputs = inputs._replace(
            query_position=distances.query[:, None],
            key_position=distances.key[:, None],
            bias_bounds=np.array(settings.bias_bounds, np.int32),
            bias=bias,
        )
    if query_rel is not None:
        key_rel_BM1F = key_rel[:, :, None]
        inputs = inputs._replace(
            query_rel=_in_tiles(query_rel, plan.query_order, tiles.query),
            key_rel=_in_tiles(key_rel_BM1F, plan.key_order, tiles.key)[:, 0],
        )
    if settings.dropout:
        inputs = inputs._replace(
            query_index=_indices(query, plan.query_order, tiles.query),
            key_index=_indices(key, plan.key_order, tiles.key),
        )
    out_BHVL, log_sum = forward(make_scalars(plan, seeds), inputs, settings)
    out_BLHV = _in_rows(out_BHVL, plan.query_order, query.shape[1])
    inputs = inputs._replace(log_sum=log_sum)
    return out_BLHV, (inputs, out_BLHV, plan, seeds, key.shape[1])


def _interval_attention_bwd(settings, residuals, grad_BLHV):
    inputs, out_BLHV, plan, seeds, num_keys = residuals
    num_queries, tile = out_BLHV.shape[1], settings.tiles.query
    product_BLHV = grad_BLHV.astype(jnp.float32) * out_BLHV.astype(jnp.float32)
    mean_BLH1 = jnp.sum(product_BLHV, axis=-1, keepdims=True)
    inputs = inputs._replace(
        grad=_in_tiles(grad_BLHV, plan.query_order, tile),
        mean=_in_tiles(mean_BLH1, plan.query_order, tile),
    )
    scalars = make_scalars(plan, seeds)
    grad_query, grad_rel, grad_bias = query_gradient(scalars, inputs, settings)
    grad_key, grad_value = key_gradient(scalars, inputs, settings)
    if grad_bias is not None:
        grad_bias = jnp.sum(grad_bias, axis=(0, 3)).T
    if grad_rel is not None:
        grad_rel = _in_rows(grad_rel, plan.query_order, num_queries)
    return (
        _in_rows(grad_query, plan.query_order, num_queries),
        _in_rows(grad_key, plan.key_order, num_keys),
        _in_rows(grad_value, plan.key_order, num_keys),
        grad_bias,
        None,
        None,
        grad_rel,
        None,
    )


interval_attention.defvjp(_interval_attention_fwd, _interval_attention_bwd)


def _in_tiles(x_BLHK: jax.Array, order: Order | None, tile: int) -> jax.Array:
    """[B, H, K, L] in the order and length of the tiles."""
    return fill_tile(jnp.moveaxis(permute(x_BLHK, order), 1, 3), tile)


def _indices(x_BLHK: jax.Array, order: Order | None, tile: int) -> jax.Array:
    """[B, 1, L] int32: the index of each position, in the order of the tiles."""
    index = jax.lax.broadcasted_iota(jnp.int32, x_BLHK.shape[:2], 1)
    return fill_tile(permute(index, order), tile)[:, None]


def _in_rows(x_BHKL: jax.Array, order: Order | None, length: int) -> jax.Array:
    """[B, L, H, K] in the order of the arrays."""
    return permute(jnp.moveaxis(x_BHKL[..., :length], 3, 1), order, back=True)
