"""Matrix products: the type of their operands, and the forms that are fast on a CPU.

XLA:CPU multiplies bfloat16 operands at twice the rate of float32 ones if the processor
has such instructions, the result is float32 and both operands are read along their rows
(openxla/xla, xla/backends/cpu/ynn_support.cc, `IsDotSupportedByYnn`).
In other forms it converts them to float32 first.
"""

# D, E width of the operands, F width of the result, N rows

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""Linux's names of x86 and Arm instructions that multiply bfloat16."""
INTEL_FLAGS = {"amx_bf16"}
"""The same on an Intel processor, whose avx512_bf16 is slower than float32
(docs/performance.md)."""


def has_fast_bfloat16(cpuinfo: str) -> bool:
    """True if /proc/cpuinfo describes a processor on which bfloat16 is the faster."""
    words = cpuinfo.split()
    flags = INTEL_FLAGS if "GenuineIntel" in words else BFLOAT16_FLAGS
    return not flags.isdisjoint(words)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def dense_matmul(x: jax.Array, kernel: jax.Array, operand_dtype: Any = None):
    """x [..., D] @ kernel [D, F] in x's dtype; the kernel's gradient is float32.

    Args:
      operand_dtype: both operands, here and in the gradients, are rounded to it; sums
        are float32. None: x's dtype.
    """
    return _forward(x, kernel, operand_dtype)[0]


def _forward(x, kernel, operand_dtype):
    x_rounded = x.astype(operand_dtype or x.dtype)
    rounded = kernel.astype(x_rounded.dtype)
    y = matmul(x_rounded, rounded, x.dtype)
    return y, (x_rounded, kernel)


def _backward(operand_dtype, residuals, grad):
    x, kernel = residuals
    rounded = grad.astype(x.dtype)
    # The narrower operand is transposed.
    if x.shape[-1] <= grad.shape[-1]:
        grad_kernel_DF = transposed_matmul(x, rounded)
    else:
        grad_kernel_DF = materialize_on_cpu(transposed_matmul(rounded, x)).T
    return matmul(rounded, kernel.T.astype(x.dtype), grad.dtype), grad_kernel_DF


dense_matmul.defvjp(_forward, _backward)


def matmul(left: jax.Array, right: jax.Array, dtype: Any) -> jax.Array:
    """left @ right in a dtype, to which a CPU rounds a float32 product."""
    if left.dtype == dtype == jnp.float32:
        return left @ right
    in_float32 = partial(jnp.matmul, preferred_element_type=jnp.float32)
    if dtype == jnp.float32:
        return in_float32(left, right)
    return lax.platform_dependent(
        left,
        right,
        cpu=lambda left, right: in_float32(left, right).astype(dtype),
        default=jnp.matmul,
    )


def transposed_matmul(left: jax.Array, right: jax.Array) -> jax.Array:
    """left.T @ right, [D, F] float32, of [..., D] and [..., F] with the same rows.

    On a CPU it uses a transposed copy of `left`, which takes 0.7 times as long as JAX's
    transpose rule.
    """

    def by_rows(left, right):
        left_ND, right_NF = (each.reshape(-1, each.shape[-1]) for each in (left, right))
        left_DN = materialize_on_cpu(left_ND.T)
        return jnp.matmul(left_DN, right_NF, preferred_element_type=jnp.float32)

    if left.dtype == jnp.float32 or left.ndim == 1:
        return by_rows(left, right)

    def on_cpu(left, right):
        left, right = (each.reshape(-1, *each.shape[-2:]) for each in (left, right))
        return _bfloat16_einsum_on_cpu("bld,blf->df", left, right)

    return lax.platform_dependent(left, right, cpu=on_cpu, default=by_rows)


def einsum(dims: str, left: jax.Array, right: jax.Array) -> jax.Array:
    """`jnp.einsum` of two arrays, in float32."""
    plain = partial(_einsum, dims)
    if left.dtype == jnp.float32:
        return plain(left, right)
    on_cpu = partial(_bfloat16_einsum_on_cpu, dims)
    return lax.platform_dependent(left, right, cpu=on_cpu, default=plain)


def _bfloat16_einsum_on_cpu(dims, left, right):
    """`einsum` in a form that XLA:CPU multiplies without converting the operands.

    The summed dims of `left` are its last ones, in a copy if necessary.
    """
    of_left, of_right, of_result = re.split(",|->", dims)
    in_order = sorted(of_left, key=lambda dim: dim not in of_result)
    if in_order != [*of_left]:
        order = [of_left.index(dim) for dim in in_order]
        left = lax.optimization_barrier(jnp.transpose(left, order))
    # XLA folds transposes into a product unless it reshapes an operand: hence a dim of
    # one.
    dims = f"z{''.join(in_order)},z{of_right}->z{of_result}"
    return _einsum(dims, left[None], right[None])[0]


_einsum = partial(jnp.einsum, preferred_element_type=jnp.float32)


def materialize_on_cpu(x: jax.Array) -> jax.Array:
    """x, which XLA:CPU then stores in this layout instead of reading it transposed."""
    return lax.platform_dependent(x, cpu=lax.optimization_barrier, default=lambda x: x)
