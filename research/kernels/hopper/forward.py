"""The forward kernel of interval attention on Hopper (Dao et al. 2022, algorithm 1)."""

# B batch, L queries, M keys, H heads, K head width, Q queries of a tile, N keys of a
# tile, S tiles of queries

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from research.kernels.hopper.block import (
    Inputs,
    add_product,
    integers,
    launch,
    load,
    load_barrier,
    over_tiles,
    part,
    spread,
    store,
)
from research.kernels.hopper.logits import LOG2_E, LOWEST, drop
from research.kernels.hopper.query_block import query_block
from research.kernels.plan import Settings


def forward(
    bounds_B4S: jax.Array, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array]:
    """The output [B, L, H, K], and log2 of the sums of exponentials [B, H, L].

    Args:
      bounds_B4S: see `query_block`.
    """
    rows, num_queries, heads, width = inputs.query.shape
    tiles = settings.tiles
    dtype = inputs.query.dtype

    def body(bounds, inputs, out, log_sum):
        own = query_block(bounds, settings)
        row, head, queries = own.row, own.head, own.queries

        def block(query_QK, interval_2Q, hash_Q, position_Q, log_sum_Q, barrier):
            load(
                barrier,
                (inputs.query.at[row, queries, head], query_QK),
                (inputs.interval.at[row, :, queries], interval_2Q),
                (part(inputs.query_hash, row, head, queries), hash_Q),
                (part(inputs.query_position, row, queries), position_Q),
            )

            def step(index, key_NK, value_NK, hash_N, position_N, carry):
                out_QK, max_Q, sum_Q = carry
                states = query_QK, key_NK, interval_2Q, (position_Q, position_N)
                logits_QN, _ = own.logits(index, *states, inputs, settings)
                now_Q = jnp.maximum(max_Q, jnp.max(logits_QN, axis=1))
                shrink_Q = jnp.exp2(max_Q - now_Q)
                exp_QN = jnp.exp2(logits_QN - spread(now_Q, logits_QN.shape))
                sum_Q = sum_Q * shrink_Q + jnp.sum(exp_QN, axis=1)
                out_QK = out_QK * spread(shrink_Q, out_QK.shape)
                kept_QN = drop(exp_QN, hash_Q, hash_N, settings)
                out_QK = add_product(out_QK, kept_QN.astype(dtype), value_NK, settings)
                return out_QK, now_Q, sum_Q

            carry = (
                jnp.zeros((tiles.query, width), jnp.float32),
                jnp.full((tiles.query,), LOWEST, jnp.float32),
                jnp.zeros((tiles.query,), jnp.float32),
            )
            arrays = own.key_arrays(inputs, settings)
            carry = over_tiles(step, carry, arrays, own.stop - own.start)
            out_QK, max_Q, sum_Q = carry
            has_keys_Q = sum_Q > 0
            sum_Q = jnp.where(has_keys_Q, sum_Q, 1.0)
            total_Q = max_Q + jnp.log(sum_Q) * LOG2_E
            store(
                (
                    out_QK / spread(sum_Q, out_QK.shape),
                    query_QK,
                    out.at[row, queries, head],
                ),
                (
                    jnp.where(has_keys_Q, total_Q, 0.0),
                    log_sum_Q,
                    log_sum.at[row, head, queries],
                ),
            )

        pl.run_scoped(
            block,
            plgpu.SMEM((tiles.query, width), dtype),
            plgpu.SMEM((2, tiles.query), jnp.int32),
            integers(tiles.query, settings.dropout),
            integers(tiles.query, settings.bias_bounds),
            plgpu.SMEM((tiles.query,), jnp.float32),
            load_barrier(2, settings),
        )

    outputs = [
        jax.ShapeDtypeStruct(inputs.query.shape, dtype),
        jax.ShapeDtypeStruct((rows, heads, num_queries), jnp.float32),
    ]
    out_BLHK, log_sum_BHL = launch(body, bounds_B4S, inputs, outputs, settings)
    return out_BLHK, log_sum_BHL
