"""Parameters as integers: how they are stored, and read as float32.

In place of a kernel or a table stands a dict of its integers and their scale. Reading
these as float32 is exact, and quantising that again gives the same integers.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from research.networks.shared.quantized import (
    INPUT_RANGE,
    KERNEL_AXES,
    SCALE,
    SPLIT,
    VALUES,
    quantize,
    within,
)

TABLES = ("token", "decoder_token")
"""Modules whose `embedding` is a token table."""
NOT_DENSE = {"relative", "features"}
"""Modules whose kernels are read as float32: of relative attention, and of the LSTM on
the features of a task."""
compiled_quantize = jax.jit(quantize, static_argnums=(1, 2))
"""`quantize`, compiled once for each shape."""


def stored(params: Any, kind: str, scales: str, clip: float = 0.0) -> dict[str, Any]:
    """The parameters, with those that a network reads as integers stored as such.

    With model.quantization these are kernels of dense layers, and the token table.

    All are arrays of int8: files are compressed, so that what has two or three values
    takes less of a disk.

    Args:
      kind, scales: one of `quantized.QUANTIZATIONS`, one of `quantized.SCALES`.
      clip: model.quantization_clip.
    """

    def store(leaf: Any, axis: Any, _: str) -> Any:
        values, scale = compiled_quantize(within(leaf, clip), kind, axis)
        return {VALUES: values, SCALE: scale}

    return map_quantized(store, params, scales)


def map_quantized(
    change: Callable[[Any, Any, str], Any], params: Any, scales: str
) -> Any:
    """The parameters, those changed that are integers with model.quantization.

    Args:
      change: array, the axes over which a scale is shared, path -> in its place.
    """

    def changed(path: Any, leaf: Any) -> Any:
        names = tuple(str(key.key) for key in path)
        if names[-1] == "kernel" and not NOT_DENSE & {*names}:
            axis = KERNEL_AXES[scales]
        elif names[-1] == "embedding" and names[-2] in TABLES:
            axis = -1
        else:
            return leaf
        return change(leaf, axis, "/".join(names))

    return jax.tree_util.tree_map_with_path(changed, params)


def values(params: Any, kind: str, scales: str, clip: float = 0.0) -> Any:
    """The float32 parameters of a network without model.quantization.

    It computes the same, but for the integers of its inputs. They are the values of the
    integers, of `split` the sum of both, whichever way they are saved; there are no
    ranges of inputs.

    Args:
      params: float32.
    """

    def value(leaf: Any, axis: Any, _: str) -> Any:
        limited = within(leaf, clip)
        integers, scale = map(np.asarray, compiled_quantize(limited, kind, axis))
        found = integers * scale
        is_table = axis == -1
        return found.sum(-2 if is_table else -3) if kind == SPLIT else found

    return without_ranges(map_quantized(value, params, scales))


def without_ranges(tree: Any) -> Any:
    """A tree without the ranges of inputs."""
    if not isinstance(tree, Mapping):
        return tree
    return {k: without_ranges(node) for k, node in tree.items() if k != INPUT_RANGE}


def as_float(tree: Any) -> Any:
    """A tree of NumPy arrays with float32 in place of integers."""
    return _replaced(tree, lambda node: node[VALUES] * np.asarray(node[SCALE]))


def float_shapes(tree: Any) -> Any:
    """A tree of shapes with one in place of integers and scale."""
    return _replaced(tree, lambda node: node[VALUES])


def _replaced(tree: Any, value: Any) -> Any:
    if not isinstance(tree, Mapping):
        return tree
    if tree.keys() == {VALUES, SCALE}:
        return value(tree)
    return {name: _replaced(node, value) for name, node in tree.items()}
