"""The backward kernels of interval attention on a TPU (Dao et al. 2022, appendix B.2).

One computes the gradient of a tile of queries from its tiles of keys, and that of the
bias; the other the gradients of a tile of keys and values from its tiles of queries.
Both compute the probabilities again. No sum depends on the order of parallel steps.
"""

# B batch, H heads, G key heads, K head width, L queries, M keys, P pieces,
# Q queries of a tile, N keys of a tile

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from research.kernels.query_grid import query_grid, query_specs, query_tile
from research.kernels.tile import (
    Inputs,
    Scalars,
    Settings,
    Tile,
    for_each_kind,
    last_piece_is_far,
    product,
    tile_distance,
    tile_logits,
    tiled_call,
)


def query_gradient(
    scalars: Scalars, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array | None]:
    """The gradient of queries [B, H, K, L], and of the bias [B, H, P, Q] in parts."""
    rows, heads, width, _ = inputs.query.shape
    tile_size, grid = settings.tiles.query, query_grid(inputs, settings)
    num_pieces = len(settings.bias_bounds) + 1
    has_bias = inputs.bias is not None

    def body(scalars, inputs, *refs):
        *outputs, grad_KQ = refs
        tile = query_tile(scalars, settings, grid)

        @pl.when(pl.program_id(3) == 0)
        def begin():
            grad_KQ[...] = jnp.zeros_like(grad_KQ)

        if has_bias:

            @pl.when((pl.program_id(2) == 0) & (pl.program_id(3) == 0))
            def begin_bias():
                outputs[1][...] = jnp.zeros_like(outputs[1])

        def step(**kind):
            _, grad_NQ = _logits_gradient(tile, scalars, inputs, settings, **kind)
            if has_bias:
                _add_bias_gradient(
                    outputs[1], grad_NQ, tile, scalars, inputs, settings, kind["far"]
                )
            key_KN = inputs.key[...]
            grad_KQ[...] += product("kn,nq->kq", key_KN, grad_NQ.astype(key_KN.dtype))

        @pl.when(tile.key < scalars.bounds.stop[tile.at_query])
        def visible():
            for_each_kind(tile, scalars, settings, step)

        @pl.when(pl.program_id(3) == grid[3] - 1)
        def end():
            outputs[0][...] = grad_KQ[...].astype(outputs[0].dtype)

    shapes = [jax.ShapeDtypeStruct(inputs.query.shape, inputs.query.dtype)]
    specs = [
        pl.BlockSpec((None, None, width, tile_size), lambda b, h, i, j, s: (b, h, 0, i))
    ]
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
        scratch=[(width, tile_size)],
        num_parallel=2 if has_bias else 3,
        num_products=3,
        settings=settings,
    )
    return grads[0], grads[1] if has_bias else None


def key_gradient(
    scalars: Scalars, inputs: Inputs, settings: Settings
) -> tuple[jax.Array, jax.Array]:
    """The gradients of keys and of values [B, G, K, M]."""
    rows, num_key_heads, width, num_keys = inputs.key.shape
    group = inputs.query.shape[1] // num_key_heads
    tiles, num_queries = settings.tiles, inputs.query.shape[-1] // settings.tiles.query
    grid = (rows, num_key_heads, num_keys // tiles.key, group * num_queries)

    def query_index(row, key, step, scalars):
        """The tile of queries; the last one that is needed where there is no other."""
        bounds, at_key = scalars.bounds, row * grid[2] + key
        last = jnp.maximum(bounds.query_stop[at_key] - 1, 0)
        return jnp.minimum(bounds.query_start[at_key] + step % num_queries, last)

    def body(scalars, inputs, key_out, value_out, key_KN, value_KN):
        row, key_head, key, step = (pl.program_id(dim) for dim in range(4))
        at_key, bounds = row * grid[2] + key, scalars.bounds
        query = bounds.query_start[at_key] + step % num_queries
        head = key_head * group + step // num_queries
        at_query = row * num_queries + jnp.minimum(query, num_queries - 1)
        tile = Tile(row, head, query, key, at_query, at_key)

        @pl.when(step == 0)
        def begin():
            key_KN[...] = jnp.zeros_like(key_KN)
            value_KN[...] = jnp.zeros_like(value_KN)

        def add(**kind):
            exp_NQ, grad_NQ = _logits_gradient(tile, scalars, inputs, settings, **kind)
            query_KQ, grad_KQ = inputs.query[...], inputs.grad[...]
            exp_NQ, grad_NQ = exp_NQ.astype(grad_KQ.dtype), grad_NQ.astype(query_KQ.dtype)
            value_KN[...] += product("kq,nq->kn", grad_KQ, exp_NQ)
            key_KN[...] += product("kq,nq->kn", query_KQ, grad_NQ)

        is_visible = query < bounds.query_stop[at_key]
        is_visible &= bounds.start[at_query] <= key
        is_visible &= key < bounds.stop[at_query]

        @pl.when(is_visible)
        def visible():
            for_each_kind(tile, scalars, settings, add)

        @pl.when(step == grid[3] - 1)
        def end():
            key_out[...] = key_KN[...].astype(key_out.dtype)
            value_out[...] = value_KN[...].astype(value_out.dtype)

    def of_query(size):
        return pl.BlockSpec(
            (None, None, size, tiles.query),
            lambda b, g, i, j, s: (
                b,
                g * group + j // num_queries,
                0,
                query_index(b, i, j, s),
            ),
        )

    def of_key():
        block = (None, None, width, tiles.key)
        return pl.BlockSpec(block, lambda b, g, i, j, s: (b, g, 0, i))

    def integers(count):
        block = (None, count, tiles.query)
        return pl.BlockSpec(block, lambda b, g, i, j, s: (b, 0, query_index(b, i, j, s)))

    specs = Inputs(
        query=of_query(width),
        key=of_key(),
        value=of_key(),
        interval=integers(2),
        query_position=integers(1),
        key_position=pl.BlockSpec((None, 1, tiles.key), lambda b, g, i, j, s: (b, 0, i)),
        bias=pl.BlockSpec(memory_space=pltpu.SMEM),
        grad=of_query(width),
        log_sum=of_query(1),
        mean=of_query(1),
    )
    pairs = zip(specs, inputs, strict=True)
    shape = jax.ShapeDtypeStruct
    return tiled_call(
        body,
        scalars,
        inputs,
        grid=grid,
        in_specs=Inputs(*(spec if x is not None else None for spec, x in pairs)),
        out_shapes=[
            shape(inputs.key.shape, inputs.key.dtype),
            shape(inputs.value.shape, inputs.value.dtype),
        ],
        out_specs=[of_key(), of_key()],
        scratch=[(width, tiles.key), (width, tiles.key)],
        num_parallel=3,
        num_products=4,
        settings=settings,
    )


def _logits_gradient(tile, scalars, inputs, settings, **kind):
    """[N, Q]: the probabilities of a tile, and the gradient of its logits."""
    logits_NQ = tile_logits(tile, scalars, inputs, settings, **kind)
    exp_NQ = jnp.exp(logits_NQ - inputs.log_sum[...])
    grad_exp_NQ = product("kn,kq->nq", inputs.value[...], inputs.grad[...])
    return exp_NQ, exp_NQ * (grad_exp_NQ - inputs.mean[...])


def _add_bias_gradient(out_PQ, grad_NQ, tile, scalars, inputs, settings, far):
    """Adds the gradient of a tile's logits, summed over keys, at each piece."""

    def add(piece, grad_NQ):
        total_1Q = jnp.sum(grad_NQ, axis=0, keepdims=True)
        out_PQ[pl.ds(piece, 1), :] += total_1Q

    bounds = settings.bias_bounds
    if far:
        last = last_piece_is_far(tile, scalars, settings)
        add(jnp.where(last, len(bounds), 0), grad_NQ)
        return
    distance_NQ = tile_distance(inputs, grad_NQ.shape)
    rest_NQ = grad_NQ  # at distances from the piece's first on
    for piece, bound in enumerate(bounds):
        is_later = distance_NQ >= bound
        add(piece, jnp.where(is_later, 0.0, rest_NQ))
        rest_NQ = jnp.where(is_later, rest_NQ, 0.0)
    add(len(bounds), rest_NQ)
