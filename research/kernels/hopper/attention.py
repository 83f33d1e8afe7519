"""Softmax attention of queries to intervals of keys, by kernels for NVIDIA's Hopper.

Memory is linear in the length: no [L, M] array exists, forward or backward. Tiles of
keys that no query of a tile attends to are neither read nor computed.
"""

# B batch, L queries, M keys, H heads, K head width

from functools import partial

import jax
import jax.numpy as jnp

from research.kernels.counter_dropout import column_hash, row_hash
from research.kernels.hopper.backward import key_gradient, query_gradient
from research.kernels.hopper.block import Inputs
from research.kernels.hopper.forward import forward
from research.kernels.hopper.logits import bias_edges
from research.kernels.plan import Order, Plan, Settings, Tiles, permute

TILES = {64: Tiles(128, 64), 128: Tiles(64, 64)}
"""Head width -> the largest tiles whose sums fit into the registers of a warpgroup."""
BIAS_TILES = Tiles(64, 64)
"""The largest tiles with a bias, whose distances also take registers."""
DTYPES = ("bfloat16", "float16")
"""Dtypes that queries, keys and values may have; sums are in float32."""


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def hopper_attention(
    settings: Settings,
    query_BLHK: jax.Array,
    key_BMHK: jax.Array,
    value_BMHK: jax.Array,
    bias_PH: jax.Array | None,
    plan: Plan,
    seeds_BH: jax.Array | None = None,
) -> jax.Array:
    """[B, L, H, K]: softmax attention; a query without keys outputs 0.

    Args:
      settings: with the tiles of the plan.
      query_BLHK: already scaled.
      bias_PH: see `research.kernels.interval_attention`.
      plan: `research.kernels.plan.make_plan` of these queries and keys, with one
        interval a query.
      seeds_BH: `research.kernels.counter_dropout.dropout_seeds`, if the settings have
        dropout.
    """
    arguments = query_BLHK, key_BMHK, value_BMHK, bias_PH, plan, seeds_BH
    return _fwd(settings, *arguments)[0]


def _fwd(settings, query, key, value, bias, plan, seeds):
    tiles, bounds, distances = settings.tiles, plan.bounds, plan.distances
    inputs = Inputs(
        query=_in_tiles(query, plan.query_order, tiles.query),
        key=_in_tiles(key, plan.key_order, tiles.key),
        value=_in_tiles(value, plan.key_order, tiles.key),
        interval=plan.interval,
    )
    if bias is not None:
        query_ends = distances.query_low, distances.query_high
        inputs = inputs._replace(
            query_position=distances.query,
            key_position=distances.key,
            query_ends=jnp.stack(query_ends, axis=1),
            key_ends=jnp.stack((distances.key_low, distances.key_high), axis=1),
            bias_edges=bias_edges(settings),
            bias=bias,
        )
    if settings.dropout:
        rows = _indices(query, plan.query_order, tiles.query)
        columns = _indices(key, plan.key_order, tiles.key)
        inputs = inputs._replace(
            query_hash=row_hash(seeds[:, :, None], rows[:, None]),
            key_hash=column_hash(columns),
        )
    out_BLHK, log_sum_BHL = forward(_query_bounds(bounds), inputs, settings)
    out_BLHK = _in_rows(out_BLHK, plan.query_order, query.shape[1])
    inputs = inputs._replace(log_sum=log_sum_BHL)
    return out_BLHK, (inputs, out_BLHK, plan, key.shape[1])


def _bwd(settings, residuals, grad_BLHK):
    inputs, out_BLHK, plan, num_keys = residuals
    num_queries, tile = out_BLHK.shape[1], settings.tiles.query
    product_BLHK = grad_BLHK.astype(jnp.float32) * out_BLHK.astype(jnp.float32)
    mean_BLH = _in_tiles(jnp.sum(product_BLHK, axis=-1), plan.query_order, tile)
    inputs = inputs._replace(
        grad=_in_tiles(grad_BLHK, plan.query_order, tile),
        mean=jnp.swapaxes(mean_BLH, 1, 2),
    )
    bounds = plan.bounds
    grad_query, grad_bias = query_gradient(_query_bounds(bounds), inputs, settings)
    if grad_bias is not None:
        grad_bias = jnp.sum(grad_bias, axis=(0, 3)).T
    bounds_B2T = jnp.stack(bounds.queries, axis=1)
    grad_key, grad_value = key_gradient(bounds_B2T, inputs, settings)
    return (
        _in_rows(grad_query, plan.query_order, num_queries),
        _in_rows(grad_key, plan.key_order, num_keys),
        _in_rows(grad_value, plan.key_order, num_keys),
        grad_bias,
        None,
        None,
    )


hopper_attention.defvjp(_fwd, _bwd)


def _query_bounds(bounds):
    (keys,) = bounds.keys
    return jnp.stack((*keys, *bounds.full), axis=1)


def _in_tiles(x: jax.Array, order: Order | None, tile: int) -> jax.Array:
    """x [B, L, ...] in the order and length of the tiles."""
    rest = -x.shape[1] % tile
    x = permute(x, order)
    return jnp.pad(x, [(0, 0), (0, rest)] + [(0, 0)] * (x.ndim - 2)) if rest else x


def _indices(x_BLHK: jax.Array, order: Order | None, tile: int) -> jax.Array:
    """[B, L] int32: the index of each position, in the order of the tiles."""
    index = jax.lax.broadcasted_iota(jnp.int32, x_BLHK.shape[:2], 1)
    return _in_tiles(index, order, tile)


def _in_rows(x_BLHK: jax.Array, order: Order | None, length: int) -> jax.Array:
    """x [B, L, H, K] in the order of the arrays."""
    return permute(x_BLHK[:, :length], order, back=True)
