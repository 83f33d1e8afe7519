"""The backward kernels of interval attention on Hopper (Dao et al. 2022, appendix B.2).

`query_gradient` computes the gradient of a tile of queries from the tiles of keys that
they attend to; `key_gradient` computes those of a tile of keys and values from the
tiles of queries that attend to them. Both recompute the probabilities. No sum depends
on the order of blocks.
"""

# B batch, L queries, M keys, H heads, K head width, Q queries of a tile, N keys of a
# tile, S tiles of queries, T tiles of keys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from research.kernels.hopper.block import (
    Inputs,
    add_product,
    block_indices,
    integers,
    launch,
    load,
    load_barrier,
    over_tiles,
    part,
    product,
    spread,
    store,
)
from research.kernels.hopper.logits import (
    LOG2_E,
    add_bias,
    add_bias_gradient,
    drop,
    make_bias,
    mask_logits,
    num_pieces,
)
from research.kernels.hopper.query_block import query_block
from research.kernels.plan import Settings


def query_gradient(
    bounds_B4S: jax.Array, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array | None]:
    """The gradients of queries [B, L, H, K], and of the bias as sums [B, H, P, L].

    Args:
      bounds_B4S: see `query_block`.
    """
    rows, num_queries, heads, width = inputs.query.shape
    dtype, tiles = inputs.query.dtype, settings.tiles
    num_sums = -(-num_pieces(settings) // 4) * 4  # so that all threads have zeros
    has_bias = inputs.bias is not None

    def body(bounds, inputs, out, *bias_out):
        own = query_block(bounds, settings)
        row, head, queries = own.row, own.head, own.queries

        def block(
            query_QK,
            grad_QK,
            interval_2Q,
            log_sum_Q,
            mean_Q,
            hash_Q,
            position_Q,
            bias_PQ,
            barrier,
        ):
            load(
                barrier,
                (inputs.query.at[row, queries, head], query_QK),
                (inputs.grad.at[row, queries, head], grad_QK),
                (inputs.interval.at[row, :, queries], interval_2Q),
                (inputs.log_sum.at[row, head, queries], log_sum_Q),
                (inputs.mean.at[row, head, queries], mean_Q),
                (part(inputs.query_hash, row, head, queries), hash_Q),
                (part(inputs.query_position, row, queries), position_Q),
            )
            if has_bias:
                bias_PQ[...] = jnp.zeros((num_sums, tiles.query), jnp.float32)
                plgpu.commit_smem()

            def step(index, key_NK, value_NK, hash_N, position_N, total_QK):
                states = query_QK, key_NK, interval_2Q, (position_Q, position_N)
                logits_QN, bias = own.logits(index, *states, inputs, settings)
                shape = logits_QN.shape
                exp_QN = jnp.exp2(logits_QN - spread(log_sum_Q[...], shape))
                grad_exp_QN = product(grad_QK, value_NK, settings, transposed=True)
                grad_exp_QN = drop(grad_exp_QN, hash_Q, hash_N, settings)
                grad_QN = exp_QN * (grad_exp_QN - spread(mean_Q[...], shape))
                add_bias_gradient(grad_QN, bias_PQ, bias, settings)
                return add_product(total_QK, grad_QN.astype(dtype), key_NK, settings)

            total_QK = jnp.zeros((tiles.query, width), jnp.float32)
            arrays = own.key_arrays(inputs, settings)
            total_QK = over_tiles(step, total_QK, arrays, own.stop - own.start)
            store((total_QK, query_QK, out.at[row, queries, head]))
            if has_bias:
                plgpu.copy_smem_to_gmem(bias_PQ, bias_out[0].at[row, head, :, queries])
                plgpu.wait_smem_to_gmem(0)

        pl.run_scoped(
            block,
            plgpu.SMEM((tiles.query, width), dtype),
            plgpu.SMEM((tiles.query, width), dtype),
            plgpu.SMEM((2, tiles.query), jnp.int32),
            plgpu.SMEM((tiles.query,), jnp.float32),
            plgpu.SMEM((tiles.query,), jnp.float32),
            integers(tiles.query, settings.dropout),
            integers(tiles.query, has_bias),
            plgpu.SMEM((num_sums, tiles.query), jnp.float32) if has_bias else None,
            load_barrier(5, settings),
        )

    outputs = [jax.ShapeDtypeStruct(inputs.query.shape, dtype)]
    if has_bias:
        shape = (rows, heads, num_sums, num_queries)
        outputs.append(jax.ShapeDtypeStruct(shape, jnp.float32))
    grads = launch(body, bounds_B4S, inputs, outputs, settings)
    return grads[0], grads[1][:, :, : num_pieces(settings)] if has_bias else None


def key_gradient(
    bounds_B2T: jax.Array, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array]:
    """The gradients of keys and of values [B, M, H, K].

    Args:
      bounds_B2T: the ends of `queries` of `research.kernels.intervals.TileBounds`.
    """
    width, dtype, tiles = inputs.key.shape[3], inputs.key.dtype, settings.tiles

    def body(bounds, inputs, key_out, value_out):
        row, head, tile = block_indices()
        keys = pl.ds(tile * tiles.key, tiles.key)
        start, stop = (bounds[row, i, tile] for i in range(2))
        matrix = pl.BlockSpec((tiles.query, width), lambda index: (start + index, 0))
        pair = pl.BlockSpec((2, tiles.query), lambda index: (0, start + index))
        vector = pl.BlockSpec((tiles.query,), lambda index: (start + index,))

        def block(key_NK, value_NK, hash_N, position_N, barrier):
            load(
                barrier,
                (inputs.key.at[row, keys, head], key_NK),
                (inputs.value.at[row, keys, head], value_NK),
                (part(inputs.key_hash, row, keys), hash_N),
                (part(inputs.key_position, row, keys), position_N),
            )

            def step(index, query_QK, grad_QK, interval_2Q, log_sum_Q, *rest):
                mean_Q, hash_Q, position_Q, (key_grad_NK, value_grad_NK) = rest
                place = row, head, start + index, tile
                bias = make_bias(inputs, place, position_Q, position_N)
                logits_NQ = product(key_NK, query_QK, settings, transposed=True)
                logits_NQ = add_bias(logits_NQ, bias, settings, query_dim=1)
                shape = logits_NQ.shape
                logits_NQ = mask_logits(
                    logits_NQ * LOG2_E, interval_2Q, tile * tiles.key, query_dim=1
                )
                exp_NQ = jnp.exp2(logits_NQ - spread(log_sum_Q[...], shape, 1))
                kept_NQ = drop(exp_NQ, hash_Q, hash_N, settings, query_dim=1)
                value_grad_NK = add_product(
                    value_grad_NK, kept_NQ.astype(dtype), grad_QK, settings
                )
                grad_exp_NQ = product(value_NK, grad_QK, settings, transposed=True)
                grad_exp_NQ = drop(grad_exp_NQ, hash_Q, hash_N, settings, query_dim=1)
                grad_NQ = exp_NQ * (grad_exp_NQ - spread(mean_Q[...], shape, 1))
                key_grad_NK = add_product(
                    key_grad_NK, grad_NQ.astype(dtype), query_QK, settings
                )
                return key_grad_NK, value_grad_NK

            arrays = (
                (inputs.query.at[row, :, head], matrix),
                (inputs.grad.at[row, :, head], matrix),
                (inputs.interval.at[row], pair),
                (inputs.log_sum.at[row, head], vector),
                (inputs.mean.at[row, head], vector),
                (part(inputs.query_hash, row, head), vector),
                (part(inputs.query_position, row), vector),
            )
            zeros_NK = jnp.zeros((tiles.key, width), jnp.float32)
            carry = zeros_NK, zeros_NK
            carry = over_tiles(step, carry, arrays, stop - start)
            key_grad_NK, value_grad_NK = carry
            store(
                (key_grad_NK, key_NK, key_out.at[row, keys, head]),
                (value_grad_NK, value_NK, value_out.at[row, keys, head]),
            )

        pl.run_scoped(
            block,
            plgpu.SMEM((tiles.key, width), dtype),
            plgpu.SMEM((tiles.key, width), dtype),
            integers(tiles.key, settings.dropout),
            integers(tiles.key, settings.bias_bounds),
            load_barrier(2, settings),
        )

    outputs = [jax.ShapeDtypeStruct(inputs.key.shape, dtype)] * 2
    key_grad, value_grad = launch(body, bounds_B2T, inputs, outputs, settings)
    return key_grad, value_grad
