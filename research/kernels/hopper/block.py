"""What the kernels for Hopper share: a warpgroup's products, copies, mask and launch.

A block is one warpgroup and holds one tile of queries or of keys in shared memory. It
loops over the tiles that the plan lists for it, while the tensor memory accelerator
copies the next ones. Several blocks share a multiprocessor, so that one computes while
another waits.
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

from research.kernels.plan import Settings

AXES = ("row", "head", "tile")
"""Names of the grid's axes."""
NUM_BUFFERS = 2
"""Tiles in flight."""


class Inputs(NamedTuple):
    """The arrays that a kernel reads in tiles, of lengths that the tiles divide."""

    query: Any  # [B, L, H, K], scaled
    key: Any  # [B, M, H, K]
    value: Any  # [B, M, H, K]
    interval: Any  # [B, 2, L] int32: the keys start <= index < stop of each query
    query_hash: Any = None  # [B, H, L] int32: `row_hash`, if there is dropout
    key_hash: Any = None  # [B, M] int32: `column_hash`
    query_position: Any = None  # [B, L] int32, if there is a bias
    key_position: Any = None  # [B, M] int32
    query_ends: Any = None  # [B, 2, S] int32: the smallest and largest of each tile
    key_ends: Any = None  # [B, 2, T] int32
    bias_edges: Any = None  # [P + 1] int32: `logits.bias_edges`
    bias: Any = None  # [P, H] float32, the values of the bias
    grad: Any = None  # [B, L, H, K], gradient of the output
    log_sum: Any = None  # [B, H, L] float32: log2 of the sum of exponentials
    mean: Any = None  # [B, H, L] float32: the softmax's mean of the logits' gradient


def load_barrier(num_copies: int, settings: Settings) -> Any:
    """The barrier of a `load`: one copy more for dropout, and one more for a bias."""
    further = bool(settings.dropout) + bool(settings.bias_bounds)
    return plgpu.Barrier(num_arrivals=num_copies + further)


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
    rows, _, heads, width = inputs.query.shape
    num_pairs = math.prod((rows, heads, *settings.lengths))

    def kernel(*refs):
        body(*tree.unflatten(refs[: len(leaves)]), *refs[len(leaves) :])

    call = pl.kernel(
        kernel,
        out_type=list(outputs),
        mesh=plgpu.Mesh(grid=(rows, heads, bounds_BRS.shape[2]), grid_names=AXES),
        compiler_params=plgpu.CompilerParams(
            approx_math=True, lowering_semantics=plgpu.LoweringSemantics.Warpgroup
        ),
        interpret=settings.interpret or None,
        cost_estimate=pl.CostEstimate(
            flops=4 * width * num_pairs, transcendentals=0, bytes_accessed=0
        ),
    )
    # The parameters of stacked layers are made under vmap, which `pl.kernel` lacks.
    return jax.custom_batching.sequential_vmap(call)(*leaves)


def block_indices() -> tuple[jax.Array, jax.Array, jax.Array]:
    """Row, head and tile of this block."""
    row, head, tile = (jax.lax.axis_index(name) for name in AXES)
    return row, head, tile


def part(array: Any, *index: Any) -> Any:
    """A reference to a slice of an array in memory; None if there is no array."""
    return None if array is None else array.at[index]


def integers(size: int, needed: Any) -> Any:
    """Shared memory for `size` int32 numbers; None if they are not needed."""
    return plgpu.SMEM((size,), jnp.int32) if needed else None


def load(barrier: Any, *copies: tuple[Any, Any]) -> None:
    """Copies global to shared memory, given as pairs (global, shared), and waits.

    The barrier is one for as many copies as there are pairs without None, which are
    skipped.
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
) -> Any:
    """Repeats `carry = step(index, *tiles, carry)` for index < count; the last carry.

    Args:
      arrays: arrays in global memory, each with its block spec by index; the tile of
        one that is None is None.
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
        max_concurrent_steps=NUM_BUFFERS,
        init_carry=carry,
    )
    return run(*(array for array, _ in given))


def product(
    left: Any, right: Any, settings: Settings, *, transposed: bool = False
) -> jax.Array:
    """left @ right, or left @ right.T, in float32 by the tensor cores.

    JAX's interpreter does not support operands that are transposed or in registers, so
    there XLA computes the product.

    Args:
      left: in registers or shared memory.
      right: in shared memory.
    """
    if settings.interpret:
        return _interpreted_product(left, right, transposed)
    shape = left.shape[0], right.shape[0 if transposed else 1]
    if transposed:
        right = right.transpose((1, 0))

    def run(out):
        plgpu.wgmma(out, left, right)
        return out[...]

    return pl.run_scoped(run, plgpu.ACC(shape, jnp.float32))


def add_product(
    total: jax.Array, left: Any, right: Any, settings: Settings
) -> jax.Array:
    """total + left @ right, in the registers of the total."""
    if settings.interpret:
        return total + _interpreted_product(left, right, transposed=False)
    return pl.run_state(lambda out: plgpu.wgmma(out, left, right))(
        plgpu.ACC.init(total)
    )


def _interpreted_product(left, right, transposed):
    left, right = left[...], right[...]
    right = right.T if transposed else right
    return jnp.dot(left, right, preferred_element_type=jnp.float32)


def spread(x: jax.Array, shape: tuple[int, ...], dim: int = 0) -> jax.Array:
    """x along a dim of a matrix, repeated along the other."""
    return jax.lax.broadcast_in_dim(x, shape, [dim])
