"""The backward kernels of interval attention on a TPU (Dao et al. 2022, appendix B.2).

`query_gradient` computes the gradients of a tile of queries, of their relative terms
and of the bias from the tiles of keys that the queries attend to; `key_gradient`
computes those of a tile of keys and values from the tiles of queries that attend to
them. Both recompute the probabilities. No sum depends on the order of parallel steps.
"""

# B batch, H heads, G key heads, K width of queries and keys, V of values, F of relative
# terms, L queries, M keys, P steps of the bias, Q queries of a tile, N keys of a tile

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from research.kernels.key_grid import (
    count_query_tiles,
    key_grid,
    key_spec,
    key_specs,
    key_tile,
)
from research.kernels.plan import Settings
from research.kernels.position_bias import add_bias_gradient
from research.kernels.query_grid import query_grid, query_spec, query_specs, query_tile
from research.kernels.tile import (
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


def query_gradient(
    scalars: Scalars, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """The gradients of queries, of their relative terms, and of the bias.

    They are [B, H, K, L], [B, H, F, L] and, as partial sums, [B, H, P, Q]; None: there
    is no such array.
    """
    rows, heads = inputs.query.shape[:2]
    tile_size, grid = settings.tiles.query, query_grid(inputs, settings)
    num_pieces = len(settings.bias_bounds) + 1
    has_bias = inputs.bias is not None
    of_queries = [x for x in (inputs.query, inputs.query_rel) if x is not None]
    num_sums, num_outputs = len(of_queries), len(of_queries) + has_bias

    def body(scalars, inputs, *refs):
        outputs, refs = refs[:num_outputs], refs[num_outputs:]
        sums, bias = refs[:num_sums], refs[num_sums:]
        tile = query_tile(scalars, grid)
        bias_refs = make_bias_refs(inputs, bias)

        @pl.when(pl.program_id(3) == 0)
        def begin():
            for total in sums:
                total[...] = jnp.zeros_like(total)

        if has_bias:

            @pl.when((pl.program_id(2) == 0) & (pl.program_id(3) == 0))
            def begin_bias():
                outputs[-1][...] = jnp.zeros_like(outputs[-1])

        def step(masked):
            _, grad_NQ = _logits_gradient(
                tile, scalars, inputs, settings, bias_refs, masked
            )
            if has_bias:
                ends = scalars.distances
                add_bias_gradient(grad_NQ, outputs[-1], bias_refs, ends, tile)
            grad_NQ = grad_NQ.astype(inputs.key.dtype)
            for total, keys in zip(sums, (inputs.key, inputs.key_rel), strict=False):
                total[...] += product("kn,nq->kq", keys[...], grad_NQ)

        @pl.when(is_needed(tile, scalars))
        def visible():
            with_mask_or_without(tile, scalars, step)

        @pl.when(pl.program_id(3) == grid[3] - 1)
        def end():
            for output, total in zip(outputs, sums, strict=False):
                output[...] = total[...].astype(output.dtype)

    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in of_queries]
    widths = [x.shape[2] for x in of_queries]
    specs = [query_spec(width, settings) for width in widths]
    if has_bias:
        shape = (rows, heads, num_pieces, tile_size)
        shapes.append(jax.ShapeDtypeStruct(shape, jnp.float32))
        block = (None, None, num_pieces, tile_size)
        specs.append(pl.BlockSpec(block, lambda b, h, i, j, s: (b, h, 0, 0)))
    grads = tiled_call(
        body,
        scalars,
        inputs,
        grid=grid,
        in_specs=query_specs(inputs, settings),
        out_shapes=shapes,
        out_specs=specs,
        scratch=[(width, tile_size) for width in widths],
        num_parallel=2 if has_bias else 3,
        products_width=inputs.value.shape[2] + logits_width(inputs),
        settings=settings,
    )
    has_relative = num_sums > 1
    return grads[0], grads[1] if has_relative else None, grads[-1] if has_bias else None


def key_gradient(
    scalars: Scalars, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array]:
    """The gradients of keys [B, G, K, M] and of values [B, G, V, M]."""
    grid = key_grid(inputs, settings)
    num_query_tiles = count_query_tiles(inputs, settings)
    of_keys = inputs.key, inputs.value
    widths = [x.shape[2] for x in of_keys]

    def body(scalars, inputs, key_out, value_out, key_KN, value_VN, *bias):
        tile = key_tile(scalars, grid, num_query_tiles)
        bias_refs = make_bias_refs(inputs, bias)

        @pl.when(pl.program_id(3) == 0)
        def begin():
            key_KN[...] = jnp.zeros_like(key_KN)
            value_VN[...] = jnp.zeros_like(value_VN)

        def add(masked):
            exp_NQ, grad_NQ = _logits_gradient(
                tile, scalars, inputs, settings, bias_refs, masked
            )
            kept_NQ = drop(exp_NQ, tile, scalars, inputs, settings)
            query_KQ, grad_VQ = inputs.query[...], inputs.grad[...]
            kept_NQ, grad_NQ = (
                kept_NQ.astype(grad_VQ.dtype),
                grad_NQ.astype(query_KQ.dtype),
            )
            value_VN[...] += product("vq,nq->vn", grad_VQ, kept_NQ)
            key_KN[...] += product("kq,nq->kn", query_KQ, grad_NQ)

        is_visible = tile.query < scalars.bounds.queries.stop[tile.at_key]

        @pl.when(is_visible & is_needed(tile, scalars))
        def visible():
            with_mask_or_without(tile, scalars, add)

        @pl.when(pl.program_id(3) == grid[3] - 1)
        def end():
            key_out[...] = key_KN[...].astype(key_out.dtype)
            value_out[...] = value_VN[...].astype(value_out.dtype)

    return tiled_call(
        body,
        scalars,
        inputs,
        grid=grid,
        in_specs=key_specs(inputs, settings),
        out_shapes=[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in of_keys],
        out_specs=[key_spec(width, settings) for width in widths],
        scratch=[(width, settings.tiles.key) for width in widths],
        num_parallel=3,
        products_width=sum(widths),
        settings=settings,
    )


def _logits_gradient(tile, scalars, inputs, settings, bias_refs, masked):
    """[N, Q]: the probabilities of a tile, and the gradient of its logits."""
    logits_NQ = tile_logits(tile, scalars, inputs, settings, bias_refs, masked)
    exp_NQ = jnp.exp(logits_NQ - inputs.log_sum[...])
    grad_exp_NQ = product("vn,vq->nq", inputs.value[...], inputs.grad[...])
    grad_exp_NQ = drop(grad_exp_NQ, tile, scalars, inputs, settings)
    return exp_NQ, exp_NQ * (grad_exp_NQ - inputs.mean[...])
