"""The forward kernel of interval attention on a TPU (Dao et al. 2022, algorithm 1)."""

# B batch, H heads, V width of values, L queries, M keys, Q queries of a tile,
# N keys of a tile

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from research.kernels.plan import Settings
from research.kernels.query_grid import query_grid, query_specs, query_tile
from research.kernels.tile import (
    LOWEST,
    Inputs,
    Scalars,
    drop,
    is_needed,
    logits_width,
    make_bias_refs,
    product,
    tile_logits,
    tiled_call,
    with_mask_or_without,
)


def forward(
    scalars: Scalars, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array]:
    """The output [B, H, V, L], and the log of the sums of exponentials [B, H, 1, L]."""
    rows, heads, _, num_queries = inputs.query.shape
    width = inputs.value.shape[2]
    tile_size, grid = settings.tiles.query, query_grid(inputs, settings)
    in_specs = query_specs(inputs, settings)

    def body(scalars, inputs, out, log_sum, max_1Q, sum_1Q, out_VQ, *bias):
        tile = query_tile(scalars, grid)
        bias_refs = make_bias_refs(inputs, bias)

        @pl.when(pl.program_id(3) == 0)
        def begin():
            max_1Q[...] = jnp.full_like(max_1Q, LOWEST)
            sum_1Q[...] = jnp.zeros_like(sum_1Q)
            out_VQ[...] = jnp.zeros_like(out_VQ)

        def step(masked):
            logits_NQ = tile_logits(tile, scalars, inputs, settings, bias_refs, masked)
            before, now = max_1Q[...], jnp.max(logits_NQ, axis=0, keepdims=True)
            now = jnp.maximum(before, now)
            exp_NQ, shrink_1Q = jnp.exp(logits_NQ - now), jnp.exp(before - now)
            total_1Q = jnp.sum(exp_NQ, axis=0, keepdims=True)
            value_VN = inputs.value[...]
            kept_NQ = drop(exp_NQ, tile, scalars, inputs, settings)
            more_VQ = product("vn,nq->vq", value_VN, kept_NQ.astype(value_VN.dtype))
            max_1Q[...] = now
            sum_1Q[...] = sum_1Q[...] * shrink_1Q + total_1Q
            out_VQ[...] = out_VQ[...] * shrink_1Q + more_VQ

        @pl.when(is_needed(tile, scalars))
        def visible():
            with_mask_or_without(tile, scalars, step)

        @pl.when(pl.program_id(3) == grid[3] - 1)
        def end():
            total_1Q = sum_1Q[...]
            has_keys = total_1Q > 0
            total_1Q = jnp.where(has_keys, total_1Q, 1)
            out[...] = (out_VQ[...] / total_1Q).astype(out.dtype)
            log_sum[...] = jnp.where(has_keys, max_1Q[...] + jnp.log(total_1Q), 0)

    shape = jax.ShapeDtypeStruct
    return tiled_call(
        body,
        scalars,
        inputs,
        grid=grid,
        in_specs=in_specs,
        out_shapes=[
            shape((rows, heads, width, num_queries), inputs.value.dtype),
            shape((rows, heads, 1, num_queries), jnp.float32),
        ],
        out_specs=[
            pl.BlockSpec(
                (None, None, width, tile_size), lambda b, h, i, j, _: (b, h, 0, i)
            ),
            pl.BlockSpec(
                (None, None, 1, tile_size), lambda b, h, i, j, _: (b, h, 0, i)
            ),
        ],
        scratch=[(1, tile_size), (1, tile_size), (width, tile_size)],
        num_parallel=3,
        products_width=logits_width(inputs) + width,
        settings=settings,
    )
