"""Products of integers, of 8 bits or of two or three values, in training and inference.

Quantisation is symmetric: q = round(x / scale) within [-127, 127], where 127 x scale is
the largest absolute value of a channel, a matrix or a token (Q8BERT, Zafrir et al.
2019, section 3; nlp_architect/nn/torch/quantization.py). Training multiplies the same
integers as inference, and gradients pass as if nothing was rounded (straight through;
`within` clips first, if requested).

qwix (0.1.8) cannot be used: it patches `lax.dot_general` while a network is traced, so
it would quantise the products of dense attention but none of dense layers, which have
custom gradients (`products.dense_matmul`).

Scales have 16 significant bits. So q x scale is exact in float32, and quantising it
again gives the same integers and scale: integers can be stored, and read as float32,
without a difference.
"""

# D width of the operands, F width of the result

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from research.networks.shared.products import matmul, transposed_matmul

SPLIT = "split"
QUANTIZATIONS = ("none", "int8", "ternary", "binary", SPLIT)
"""Kinds of weights. Inputs of dense layers are 8-bit integers, except with none.

ternary  -1, 0 and 1: nonzero above .7 times the mean absolute value; their mean is the
         scale (TWN, Li and Liu 2016; TernaryBERT, Zhang et al. 2020, section 3.1).
binary   -1 and 1; the scale is the mean absolute value (BWN, Rastegari et al. 2016,
         section 3.1; BinaryBERT, Bai et al. 2021, section 2).
split    the sum of two binary matrices of the same shape, each with its own scale:
         kernels are [2, D, F], tables [V, 2, E] (BinaryBERT, section 3.2; the released
         transformer/modeling_dynabert_binary.py, where each layer has two).
"""
SCALES = ("channel", "tensor")
"""What shares a scale: each output of a matrix, or the whole matrix."""
KERNEL_AXES = {"channel": -2, "tensor": (-2, -1)}
"""One of SCALES -> the axes of a kernel [..., D, F] over which a scale is shared."""
RANGES = ("token", "ema")
"""Largest values of the inputs of dense layers: of each token as it is read, or one per
layer, measured before (`MEASURED`)."""

LARGEST = 127
TERNARY_THRESHOLD = 0.7
DROPPED_BITS = 8  # of the 24 significant ones of a float32
VALUES, SCALE = "int8", "scale"
"""The names of what is stored instead of a float32 parameter."""
INPUT_RANGE = "input_range"
"""The parameter with the largest input of a dense layer; 0: not measured yet. It gets
no gradient."""
MEASURE = -1.0
"""A range that measures: its gradient is the largest absolute input."""
COUNT = -2.0
"""A range that counts how often its layer runs: its gradient is 1 per run."""


def scale_of(x: jax.Array, axis: Any) -> jax.Array:
    """The scale of the largest absolute value over `axis`, which has size 1 in it."""
    return scale_of_largest(jnp.max(jnp.abs(x), axis=axis, keepdims=True))


def scale_of_largest(largest: jax.Array) -> jax.Array:
    """The scale with which a value becomes 127; 1 for a value of 0."""
    scale = _with_few_bits(largest.astype(jnp.float32) / LARGEST)
    return jnp.where(scale > 0, scale, 1.0)


def _with_few_bits(scale: jax.Array) -> jax.Array:
    bits = lax.bitcast_convert_type(scale, jnp.uint32)
    half, unit = 1 << (DROPPED_BITS - 1), 1 << DROPPED_BITS
    rounded = (bits + jnp.uint32(half)) & jnp.uint32(2**32 - unit)
    return lax.bitcast_convert_type(rounded, jnp.float32)


def to_int8(x: jax.Array, scale: jax.Array) -> jax.Array:
    """The integers of x; values beyond the range become the largest ones."""
    rounded = jnp.round(x.astype(jnp.float32) / scale)
    return jnp.clip(rounded, -LARGEST, LARGEST).astype(jnp.int8)


def within(x: Any, clip: float) -> Any:
    """Clips an array to ±clip (0: no limit); its gradient is 0 at and beyond the limit.

    huawei-noah/Pretrained-Language-Model, TernaryBERT/transformer/utils_quant.py.
    """
    if not clip:
        return x
    limit = jnp.asarray(clip, x.dtype)
    return lax.clamp(-limit, x, limit)


def is_stored(param: Any) -> bool:
    """Whether a parameter is stored as integers."""
    return isinstance(param, Mapping)


def quantize(x: jax.Array, kind: str, axis: Any) -> tuple[jax.Array, jax.Array]:
    """The integers of weights, and their scale, which has size 1 over `axis`.

    Args:
      kind: one of QUANTIZATIONS but none.
    """
    if kind == "int8":
        scale = scale_of(x, axis)
        return to_int8(x, scale), scale
    # Means are over differences from the largest value: a float32 sum of many equal
    # values drifts, so that weights already quantised would get another scale.
    size = jnp.abs(x.astype(jnp.float32))
    largest = jnp.max(size, axis, keepdims=True)
    mean = largest + jnp.mean(size - largest, axis, keepdims=True)
    if kind in ("binary", SPLIT):
        return jnp.where(x < 0, -1, 1).astype(jnp.int8), _with_few_bits(mean)
    is_kept = size > TERNARY_THRESHOLD * mean
    count = jnp.sum(is_kept, axis, keepdims=True)
    total = jnp.sum(jnp.where(is_kept, size - largest, 0), axis, keepdims=True)
    scale = _with_few_bits(largest + total / jnp.maximum(count, 1))
    return jnp.where(is_kept, jnp.sign(x), 0).astype(jnp.int8), scale


def quantize_kernel(kernel: jax.Array, kind: str, scales: str) -> tuple:
    """The integers of kernels [..., D, F], and their scale [..., 1, F] or [..., 1, 1].

    Kernels of kind split are [..., 2, D, F].

    Args:
      scales: one of SCALES.
    """
    return quantize(kernel, kind, KERNEL_AXES[scales])


def int8_matmul(
    x: jax.Array,
    kernel: Any,
    limit: jax.Array | None,
    scales: str,
    dtype: Any,
    kind: str = "int8",
) -> jax.Array:
    """x [..., D] @ kernel [D, F] in x's dtype, from integers, whose sums are exact.

    Args:
      kernel: float32, or as it is stored; for kind split [2, D, F], the two summands.
      limit: [] the largest absolute value of x; 0 and None: that of each token;
        `MEASURE` and `COUNT`: the same, and its gradient is the measurement.
      scales: one of SCALES.
      dtype: of the operands of gradients.
      kind: of the kernel, one of QUANTIZATIONS.
    """
    limit = jnp.zeros(()) if limit is None else limit
    if is_stored(kernel):
        values, scale = kernel[VALUES], kernel[SCALE]
        return _product(*_input(x, limit), values, scale).astype(x.dtype)
    return _trained_matmul(x, kernel, limit, scales, jnp.dtype(dtype), kind)


def _input(x: jax.Array, limit: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Integers [..., D] and scales [..., 1]."""
    own = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    scale = scale_of_largest(jnp.where(limit > 0, limit, own))
    return to_int8(x, scale), scale


def _product(x_int8, x_scale, kernel_int8, kernel_scale):
    dims = (((x_int8.ndim - 1,), (kernel_int8.ndim - 2,)), ((), ()))
    y = lax.dot_general(x_int8, kernel_int8, dims, preferred_element_type=jnp.int32)

    def spread(row_1F):
        return jnp.expand_dims(row_1F, range(y.ndim - kernel_int8.ndim))

    if kernel_int8.ndim == 2:
        return y.astype(jnp.float32) * x_scale * spread(kernel_scale)
    # s p + t q = ((p + q) + (s - t) / (s + t) x (p - q)) x (s + t) / 2. With s = t, as
    # after the split, the integers are added, and what is rounded, here and by XLA with
    # a bias that is added, is what one product of the ternary kernel rounds.
    p, q, s, t = y[..., 0, :], y[..., 1, :], kernel_scale[0], kernel_scale[1]
    ratio = jnp.where(s + t > 0, (s - t) / jnp.where(s + t > 0, s + t, 1), 0)
    total = (p + q).astype(jnp.float32) * x_scale
    total += (p - q).astype(jnp.float32) * x_scale * spread(ratio)
    return total * spread((s + t) / 2)


def sum_parts(x: jax.Array) -> jax.Array:
    """[..., E] from the two summands [..., 2, E] of split rows."""
    return x[..., 0, :] + x[..., 1, :]


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def _trained_matmul(x, kernel, limit, scales, dtype, kind):
    return _forward(x, kernel, limit, scales, dtype, kind)[0]


def _forward(x, kernel, limit, scales, dtype, kind):
    read, stored = _input(x, limit), quantize_kernel(kernel, kind, scales)
    largest = jnp.max(jnp.abs(x)).astype(jnp.float32)
    y = _product(*read, *stored).astype(x.dtype)
    return y, (read, stored, limit, largest)


def _backward(scales, dtype, kind, residuals, grad):
    del scales
    (x_int8, x_scale), (kernel_int8, scale), limit, largest = residuals
    rounded = grad.astype(dtype)
    x = (x_int8 * x_scale).astype(dtype)
    kernel = kernel_int8 * scale
    if kind == SPLIT:
        kernel = kernel[0] + kernel[1]
    grad_x = matmul(rounded, kernel.astype(dtype).T, grad.dtype)
    grad_kernel = transposed_matmul(x, rounded)
    if kind == SPLIT:
        grad_kernel = jnp.stack([grad_kernel, grad_kernel])
    grad_limit = jnp.where(limit == MEASURE, largest, 1.0 * (limit == COUNT))
    return grad_x, grad_kernel, grad_limit


_trained_matmul.defvjp(_forward, _backward)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def quantize_rows(table: jax.Array, kind: str = "int8") -> jax.Array:
    """Rows [..., E] with the values of their integers; the gradient is 1."""
    values, scale = quantize(table, kind, -1)
    return (values * scale).astype(table.dtype)


quantize_rows.defvjp(
    lambda table, kind: (quantize_rows(table, kind), None),
    lambda kind, _, grad: (grad,),
)
