"""One tile of logits in a TPU kernel, and the call of a kernel on all tiles.

Kernels hold the transposed matrix: keys along sublanes, queries along lanes. So the
maxima and sums of queries are rows [1, Q] without padding of lanes, and a maximum over
keys is elementwise but for its last step.
"""

# B batch, H heads, K width of queries and keys, V of values, F of relative terms,
# Q queries of a tile, N keys of a tile, P steps of the bias

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from research.kernels.counter_dropout import counter_dropout
from research.kernels.intervals import TileBounds
from research.kernels.plan import LANES, Distances, Plan, Settings
from research.kernels.position_bias import BiasRefs, add_bias, bias_scratch

HIDDEN = -1e38
"""The logit of a key that a query does not attend to."""
LOWEST = -1e30
"""The maximum of no logits: exp(HIDDEN - LOWEST) is 0."""


class Scalars(NamedTuple):
    """What a kernel reads before a tile; all arrays but the seeds are flat."""

    bounds: TileBounds
    distances: Distances | None  # only the smallest and largest of the tiles
    seeds: Any = None  # [B, H] int32, seeds of dropout


class Inputs(NamedTuple):
    """The arrays that a kernel reads in tiles."""

    query: Any  # [B, H, K, L], scaled
    key: Any  # [B, H, K, M]
    value: Any  # [B, H, V, M]
    interval: Any  # [B, 2 x intervals, L]
    query_rel: Any = None  # [B, H, F, L]
    key_rel: Any = None  # [B, F, M]
    query_position: Any = None  # [B, 1, L]
    key_position: Any = None  # [B, 1, M]
    bias_bounds: Any = None  # [P - 1]
    bias: Any = None  # [P, H], the values of the bias
    query_index: Any = None  # [B, 1, L] in the order of the arrays, for dropout
    key_index: Any = None  # [B, 1, M] likewise
    grad: Any = None  # [B, H, V, L], gradient of the output
    log_sum: Any = None  # [B, H, 1, L] log of the sum of exponentials
    mean: Any = None  # [B, H, 1, L] gradient of the logits, averaged by the softmax


class Tile(NamedTuple):
    """Which tile a step of the grid computes."""

    row: Any
    head: Any  # a head of queries
    query: Any
    key: Any
    at_query: Any  # its index in flat arrays [B, number of tiles of queries]
    at_key: Any  # its index in flat arrays [B, number of tiles of keys]


def make_scalars(plan: Plan, seeds_BH: jax.Array | None) -> Scalars:
    """The scalars of a plan, flat, since a TPU pads the last dim of other arrays."""
    distances = plan.distances
    if distances is not None:
        distances = distances._replace(query=None, key=None)
    flat = jax.tree.map(jnp.ravel, Scalars(plan.bounds, distances))
    return flat._replace(seeds=seeds_BH)


def tiled_call(
    body: Callable,
    scalars: Scalars,
    inputs: Inputs,
    *,
    grid: tuple[int, ...],
    in_specs: Inputs,
    out_shapes: Sequence[jax.ShapeDtypeStruct],
    out_specs: Sequence[pl.BlockSpec],
    scratch: Sequence[tuple[int, ...]],
    num_parallel: int,
    products_width: int,
    settings: Settings,
) -> Sequence[jax.Array]:
    """`body(scalars, inputs, *outputs, *scratch)` at each step of the grid.

    Args:
      in_specs: one for each input, even if that is None. Index maps take the grid's
        indices, and the scalars last.
      scratch: shapes of float32 arrays that persist from step to step; those of the
        bias are appended.
      num_parallel: leading dims of the grid whose order does not matter.
      products_width: sum of the widths of the matrix products of all pairs for which
        the kernel stands. FLOPs are counted as of dense attention: those of skipped
        tiles count, those that a backward kernel recomputes do not.
    """
    scalar_leaves, scalar_tree = jax.tree.flatten(scalars)
    leaves, tree = jax.tree.flatten((scalars, inputs))

    def kernel(*refs):
        body(*tree.unflatten(refs[: len(leaves)]), *refs[len(leaves) :])

    def with_scalars(spec):
        if spec.index_map is None:
            return spec

        def index_map(*arguments):
            indices, refs = arguments[: len(grid)], arguments[len(grid) :]
            return spec.index_map(*indices, scalar_tree.unflatten(refs))

        return pl.BlockSpec(spec.block_shape, index_map)

    specs = zip(in_specs, inputs, strict=True)
    given_specs = [spec for spec, array in specs if array is not None]
    num_pairs = math.prod((*inputs.query.shape[:2], *settings.lengths))
    scratch_shapes = [pltpu.VMEM(shape, jnp.float32) for shape in scratch]
    if inputs.bias is not None:
        scratch_shapes += bias_scratch(settings.tiles)
    dims = ["parallel"] * num_parallel + ["arbitrary"] * (len(grid) - num_parallel)
    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(scalar_leaves),
            grid=grid,
            in_specs=[with_scalars(spec) for spec in given_specs],
            out_specs=[with_scalars(spec) for spec in out_specs],
            scratch_shapes=scratch_shapes,
        ),
        out_shape=list(out_shapes),
        compiler_params=pltpu.CompilerParams(dimension_semantics=dims),
        cost_estimate=pl.CostEstimate(
            flops=2 * products_width * num_pairs,
            transcendentals=0,
            bytes_accessed=0,
        ),
        interpret=settings.interpret,
    )(*leaves)


def logits_width(inputs: Inputs) -> int:
    """The sum of the widths of the products that make the logits of a pair."""
    relative = 0 if inputs.query_rel is None else inputs.query_rel.shape[2]
    return inputs.query.shape[2] + relative


def is_needed(tile: Tile, scalars: Scalars) -> jax.Array:
    """Whether the tile is among those that its queries need (`TileBounds.keys`)."""
    each = [_is_within(interval, tile) for interval in scalars.bounds.keys]
    return reduce(jnp.logical_or, each)


def _is_within(interval, tile):
    """Whether the tile's keys are within an interval of tiles of its queries."""
    start, stop = (end[tile.at_query] for end in interval)
    return (start <= tile.key) & (tile.key < stop)


def with_mask_or_without(
    tile: Tile, scalars: Scalars, step: Callable[[bool], None]
) -> None:
    """Calls `step(masked)`; masked unless all of the queries attend to all keys."""
    is_full = _is_within(scalars.bounds.full, tile)
    pl.when(is_full)(partial(step, False))
    pl.when(jnp.logical_not(is_full))(partial(step, True))


def make_bias_refs(inputs: Inputs, scratch: Sequence[Any]) -> BiasRefs | None:
    """What the bias needs in a kernel; None: there is none."""
    if inputs.bias is None:
        return None
    positions = inputs.query_position, inputs.key_position
    return BiasRefs(inputs.bias_bounds, inputs.bias, *positions, *scratch)


def tile_logits(
    tile: Tile,
    scalars: Scalars,
    inputs: Inputs,
    settings: Settings,
    bias_refs: BiasRefs | None,
    masked: bool,
) -> jax.Array:
    """[N, Q] float32: the logits of a tile, with relative terms, bias and mask."""
    logits_NQ = product("kn,kq->nq", inputs.key[...], inputs.query[...])
    if inputs.query_rel is not None:
        logits_NQ += product("fn,fq->nq", inputs.key_rel[...], inputs.query_rel[...])
    if bias_refs is not None:
        logits_NQ = add_bias(logits_NQ, bias_refs, scalars.distances, tile)
    if masked:
        index_NQ = jax.lax.broadcasted_iota(jnp.int32, logits_NQ.shape, 0)
        index_NQ += tile.key * settings.tiles.key
        interval = inputs.interval[...]
        in_each = [
            (interval[n : n + 1] <= index_NQ) & (index_NQ < interval[n + 1 : n + 2])
            for n in range(0, len(interval), 2)
        ]
        mask_NQ = reduce(jnp.logical_or, in_each)
        logits_NQ = jnp.where(mask_NQ, logits_NQ, HIDDEN)
    return logits_NQ


def drop(
    x_NQ: jax.Array, tile: Tile, scalars: Scalars, inputs: Inputs, settings: Settings
) -> jax.Array:
    """x [N, Q] after dropout, if there is dropout."""
    if not settings.dropout:
        return x_NQ
    key_1N = inputs.key_index[...]
    key_N1 = jnp.broadcast_to(key_1N, (LANES, key_1N.shape[1])).T[:, :1]
    seed = scalars.seeds[tile.row, tile.head]
    indices = inputs.query_index[...], key_N1
    return counter_dropout(x_NQ, seed, *indices, settings.dropout)


def product(dims: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """einsum of two matrices in float32."""
    return jnp.einsum(dims, left, right, preferred_element_type=jnp.float32)
