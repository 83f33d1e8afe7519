"""What the kernels for Hopper share: a warpgroup's products, copies, mask and launch.

A block is one warpgroup, and holds one tile of queries or of keys in shared memory. It
loops over the tiles that the plan gives it, of which the next ones are copied meanwhile
by the tensor memory accelerator. Several blocks of a multiprocessor hide each other's
waits.
"""

# B batch, L queries, M keys, H heads, K head width, Q queries of a tile, N keys of a
# tile, S tiles, R numbers of a tile

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from research.kernels.counter_dropout import drop_by_hash
from research.kernels.plan import Tiles

HIDDEN = -1e38
"""The logit of a key that a query does not attend to."""
LOWEST = -1e30
"""The maximum of no logits: exp2(HIDDEN - LOWEST) is 0."""
LOG2_E = math.log2(math.e)
"""Exponentials and logarithms are to base 2, in which the hardware computes them."""
AXES = ("row", "head", "tile")
"""Of the grid."""


class Settings(NamedTuple):
    """What a kernel is compiled for."""

    tiles: Tiles  # multiples of 64
    dropout: float = 0.0  # rate of dropout of the probabilities
    num_buffers: int = 2  # tiles in flight
    interpreter: Any = None  # JAX's for Mosaic GPU, in tests; None: none


class Inputs(NamedTuple):
    """The arrays that a kernel reads in tiles, of lengths that the tiles divide."""

    query: Any  # [B, L, H, K], scaled
    key: Any  # [B, M, H, K]
    value: Any  # [B, M, H, K]
    interval: Any  # [B, 2, L] int32: the keys start <= index < stop of each query
    query_hash: Any = None  # [B, H, L] int32: `row_hash`, if there is dropout
    key_hash: Any = None  # [B, M] int32: `column_hash`
    grad: Any = None  # [B, L, H, K] of the output
    log_sum: Any = None  # [B, H, L] float32: log2 of the sum of exponentials
    mean: Any = None  # [B, H, L] float32: the softmax's mean of the logits' gradient


def launch(
    body: Callable[..., None],
    bounds_BRS: jax.Array,
    inputs: Inputs,
    outputs: Sequence[jax.ShapeDtypeStruct],
    settings: Settings,
) -> Sequence[jax.Array]:
    """`body(bounds, inputs, *outputs)` for each row, head and tile of the bounds.

    Its FLOPs count as two matrix products of [L, M, K], as each kernel has them in
    dense attention: in full, though tiles are left out, and without the products that
    a backward kernel computes again.

    Args:
      bounds_BRS: int32, R numbers for each tile.
    """
    leaves, tree = jax.tree.flatten((bounds_BRS, inputs))
    rows, num_queries, heads, width = inputs.query.shape
    products = 2 * rows * heads * num_queries * inputs.key.shape[1]

    def kernel(*refs):
        body(*tree.unflatten(refs[: len(leaves)]), *refs[len(leaves) :])

    call = pl.kernel(
        kernel,
        out_type=list(outputs),
        mesh=plgpu.Mesh(grid=(rows, heads, bounds_BRS.shape[2]), grid_names=AXES),
        compiler_params=plgpu.CompilerParams(
            approx_math=True, lowering_semantics=plgpu.LoweringSemantics.Warpgroup
        ),
        interpret=settings.interpreter,
        cost_estimate=pl.CostEstimate(
            flops=2 * width * products, transcendentals=0, bytes_accessed=0
        ),
    )
    # The parameters of stacked layers are made under vmap, which `pl.kernel` lacks.
    return jax.custom_batching.sequential_vmap(call)(*leaves)


def block_indices() -> tuple[jax.Array, jax.Array, jax.Array]:
    """Row, head and tile of this block."""
    row, head, tile = (jax.lax.axis_index(name) for name in AXES)
    return row, head, tile


def part(array: Any, *index: Any) -> Any:
    """A part of an array in memory; None of None."""
    return None if array is None else array.at[index]


def hash_buffer(size: int, settings: Settings) -> Any:
    """Shared memory for the hashes of a tile; None: there is no dropout."""
    return plgpu.SMEM((size,), jnp.int32) if settings.dropout else None


def load(barrier: Any, *copies: tuple[Any, Any]) -> None:
    """Copies pairs of (global, shared) memory, for whose number the barrier is.

    A pair of None does not count.
    """
    for source, target in copies:
        if source is not None:
            plgpu.copy_gmem_to_smem(source, target, barrier)
    plgpu.barrier_wait(barrier)


def store(*copies: tuple[jax.Array, Any, Any]) -> None:
    """Writes values through shared memory, given as (value, shared, global)."""
    for value, buffer, _ in copies:
        buffer[...] = value.astype(buffer.dtype)
    plgpu.commit_smem()
    for _, buffer, target in copies:
        plgpu.copy_smem_to_gmem(buffer, target)
    plgpu.wait_smem_to_gmem(0)


def over_tiles(
    step: Callable[..., Any],
    carry: Any,
    arrays: Sequence[tuple[Any, pl.BlockSpec]],
    count: jax.Array,
    settings: Settings,
) -> Any:
    """The last carry of `carry = step(index, *tiles, carry)`, for index < count.

    Args:
      arrays: in global memory, each with the tile at an index. Where one is None, so
        is its tile.
    """
    given = [(array, spec) for array, spec in arrays if array is not None]

    def body(indices, *tiles_and_carry):
        *tiles, carry = tiles_and_carry
        left = iter(tiles)
        tiles = [None if array is None else next(left) for array, _ in arrays]
        return step(indices[0], *tiles, carry)

    run = plgpu.emit_pipeline(
        body,
        grid=(count,),
        in_specs=[spec for _, spec in given],
        max_concurrent_steps=settings.num_buffers,
        init_carry=carry,
    )
    return run(*(array for array, _ in given))


def product(
    left: Any, right: Any, settings: Settings, *, transposed: bool = False
) -> jax.Array:
    """left @ right, or left @ right.T, in float32 by the tensor cores.

    JAX's interpreter has no operands that are transposed or in registers; there the
    product is XLA's.

    Args:
      left: in registers or shared memory.
      right: in shared memory.
    """
    if settings.interpreter is not None:
        return _interpreted_product(left, right, transposed)
    shape = left.shape[0], right.shape[0 if transposed else 1]
    if transposed:
        right = plgpu.transpose_ref(right, (1, 0))

    def run(out):
        plgpu.wgmma(out, left, right)
        return out[...]

    return pl.run_scoped(run, plgpu.ACC(shape, jnp.float32))


def add_product(
    total: jax.Array, left: Any, right: Any, settings: Settings
) -> jax.Array:
    """total + left @ right, in the registers of the total."""
    if settings.interpreter is not None:
        return total + _interpreted_product(left, right, transposed=False)
    return pl.run_state(lambda out: plgpu.wgmma(out, left, right))(
        plgpu.ACC.init(total)
    )


def _interpreted_product(left, right, transposed):
    left, right = left[...], right[...]
    right = right.T if transposed else right
    return jnp.dot(left, right, preferred_element_type=jnp.float32)


def drop(
    x: jax.Array, query_hash: Any, key_hash: Any, settings: Settings, query_dim: int = 0
) -> jax.Array:
    """x with the dropout of its pairs of queries and keys, if there is dropout.

    Args:
      query_hash, key_hash: of a tile, in shared memory.
    """
    if not settings.dropout:
        return x
    hashes = spread(query_hash[...], x.shape, query_dim)
    hashes += spread(key_hash[...], x.shape, 1 - query_dim)
    return drop_by_hash(x, hashes, settings.dropout)


def spread(x: jax.Array, shape: tuple[int, ...], dim: int = 0) -> jax.Array:
    """x along a dim of a matrix, repeated along the other."""
    return jax.lax.broadcast_in_dim(x, shape, [dim])


def mask_logits(
    logits: jax.Array, interval: Any, first_key: jax.Array, *, query_dim: int = 0
) -> jax.Array:
    """The logits of a tile, HIDDEN where a query does not attend to a key.

    Args:
      interval: [2, Q] in shared memory.
      first_key: index of the tile's first key.
    """
    key = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1 - query_dim) + first_key
    start, stop = (spread(interval[i], logits.shape, query_dim) for i in range(2))
    return jnp.where((start <= key) & (key < stop), logits, HIDDEN)
