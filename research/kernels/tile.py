"""One tile of logits in a TPU kernel, and the call of a kernel on all tiles.

Kernels hold the transposed matrix: keys along sublanes, queries along lanes. So maxima
and sums of a query are rows [1, Q] that need no lanes of padding, and a maximum over
keys is elementwise but for its last step.
"""

# B batch, H heads, K head width, Q queries of a tile, N keys of a tile, P pieces

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from research.kernels.intervals import TileBounds
from research.kernels.plan import Distances, Plan, Tiles

HIDDEN = -1e38
"""The logit of a key that a query does not attend to."""
LOWEST = -1e30
"""The maximum of no logits: exp(HIDDEN - LOWEST) is 0."""


class Settings(NamedTuple):
    """What a kernel is compiled for."""

    tiles: Tiles
    bias_bounds: tuple[int, ...] = ()  # distances at which the next piece begins
    interpret: bool = False


class Scalars(NamedTuple):
    """What a kernel reads before a tile, each array flat."""

    bounds: TileBounds
    distances: Distances | None  # only the smallest and largest of the tiles


class Inputs(NamedTuple):
    """The arrays that a kernel reads in tiles."""

    query: Any  # [B, H, K, L], scaled
    key: Any  # [B, H, K, M]
    value: Any  # [B, H, K, M]
    interval: Any  # [B, 2, L]
    query_position: Any = None  # [B, 1, L]
    key_position: Any = None  # [B, 1, M]
    bias: Any = None  # [P, H] of the pieces
    grad: Any = None  # [B, H, K, L] of the output
    log_sum: Any = None  # [B, H, 1, L] log of the sum of exponentials
    mean: Any = None  # [B, H, 1, L] gradient of the logits, averaged by the softmax


class Tile(NamedTuple):
    """Which tile a step of the grid computes."""

    row: Any
    head: Any  # of queries
    query: Any
    key: Any
    at_query: Any  # of flat arrays [B, number of tiles of queries]
    at_key: Any  # of flat arrays [B, number of tiles of keys]


def make_scalars(plan: Plan) -> Scalars:
    """The scalars of a plan, flat: a TPU pads the last dim of others."""
    distances = plan.distances
    if distances is not None:
        distances = distances._replace(query=None, key=None)
    return jax.tree.map(jnp.ravel, Scalars(plan.bounds, distances))


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
    num_products: int,
    settings: Settings,
) -> Sequence[jax.Array]:
    """`body(scalars, inputs, *outputs, *scratch)` at each step of the grid.

    Args:
      in_specs: index maps take the grid's indices, and the scalars last.
      scratch: shapes of float32 arrays that stay from step to step.
      num_parallel: leading dims of the grid whose order does not matter.
      num_products: matrix products of [L, M, K] that the kernel replaces; those of
        tiles that are left out count too, since their number is not known.
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

    is_spec = lambda leaf: isinstance(leaf, pl.BlockSpec)  # noqa: E731
    in_specs = jax.tree.leaves(in_specs, is_leaf=is_spec)
    rows, heads, width, num_queries = inputs.query.shape
    products = num_products * rows * heads * num_queries * inputs.key.shape[-1]
    dims = ["parallel"] * num_parallel + ["arbitrary"] * (len(grid) - num_parallel)
    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=len(scalar_leaves),
            grid=grid,
            in_specs=[with_scalars(spec) for spec in in_specs],
            out_specs=[with_scalars(spec) for spec in out_specs],
            scratch_shapes=[pltpu.VMEM(shape, jnp.float32) for shape in scratch],
        ),
        out_shape=list(out_shapes),
        compiler_params=pltpu.CompilerParams(dimension_semantics=dims),
        cost_estimate=pl.CostEstimate(
            flops=2 * width * products, transcendentals=0, bytes_accessed=0
        ),
        interpret=settings.interpret,
    )(*leaves)


def for_each_kind(
    tile: Tile, scalars: Scalars, settings: Settings, step: Callable[..., None]
) -> None:
    """Runs `step(masked=..., far=...)` as this tile needs it.

    masked: some query does not attend to some key of it. far: True if all distances are
    in the first or the last piece of the bias, so that it is a scalar; None: no bias.
    """
    bounds = scalars.bounds
    is_full = bounds.full_start[tile.at_query] <= tile.key
    is_full &= tile.key < bounds.full_stop[tile.at_query]
    for masked in (False, True):
        of_mask = jnp.logical_not(is_full) if masked else is_full
        if scalars.distances is None:
            pl.when(of_mask)(lambda masked=masked: step(masked=masked, far=None))
            continue
        below, above = _far(tile, scalars, settings)
        is_far = below | above
        for far in (False, True):
            of_kind = of_mask & (is_far if far else jnp.logical_not(is_far))
            pl.when(of_kind)(
                lambda masked=masked, far=far: step(masked=masked, far=far)
            )


def _far(tile: Tile, scalars: Scalars, settings: Settings):
    """Whether all distances are in the first piece of the bias, or in the last."""
    ends = scalars.distances
    low = ends.key_low[tile.at_key] - ends.query_high[tile.at_query]
    high = ends.key_high[tile.at_key] - ends.query_low[tile.at_query]
    return high < settings.bias_bounds[0], low >= settings.bias_bounds[-1]


def last_piece_is_far(tile: Tile, scalars: Scalars, settings: Settings) -> jax.Array:
    """Of a far tile: whether its distances are in the last piece, not in the first."""
    return _far(tile, scalars, settings)[1]


def tile_logits(
    tile: Tile,
    scalars: Scalars,
    inputs: Inputs,
    settings: Settings,
    *,
    masked: bool,
    far: bool | None,
) -> jax.Array:
    """[N, Q] float32: the logits of a tile, with bias and mask."""
    logits_NQ = product("kn,kq->nq", inputs.key[...], inputs.query[...])
    if far:
        last = last_piece_is_far(tile, scalars, settings)
        piece = jnp.where(last, len(settings.bias_bounds), 0)
        logits_NQ += inputs.bias[piece, tile.head]
    elif far is not None:
        distance_NQ = tile_distance(inputs, logits_NQ.shape)
        bias_NQ = jnp.full_like(logits_NQ, inputs.bias[0, tile.head])
        for piece, bound in enumerate(settings.bias_bounds, 1):
            value = inputs.bias[piece, tile.head]
            bias_NQ = jnp.where(distance_NQ >= bound, value, bias_NQ)
        logits_NQ += bias_NQ
    if masked:
        start_1Q, stop_1Q = inputs.interval[:1], inputs.interval[1:]
        index_NQ = jax.lax.broadcasted_iota(jnp.int32, logits_NQ.shape, 0)
        index_NQ += tile.key * settings.tiles.key
        mask_NQ = (start_1Q <= index_NQ) & (index_NQ < stop_1Q)
        logits_NQ = jnp.where(mask_NQ, logits_NQ, HIDDEN)
    return logits_NQ


def tile_distance(inputs: Inputs, shape: tuple[int, int]) -> jax.Array:
    """[N, Q] int32: position of the key - position of the query."""
    key_QN = jnp.broadcast_to(inputs.key_position[...], shape[::-1])
    return key_QN.T - inputs.query_position[...]


def product(dims: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """einsum of two matrices in float32."""
    return jnp.einsum(dims, left, right, preferred_element_type=jnp.float32)
