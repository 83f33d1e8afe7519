"""Parameters as integers: how they are stored, and read as float32.

In place of a kernel or a table stands a dict of its integers and their scale. Reading
these as float32 is exact, and quantising that again gives the same integers.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from research.networks.layers.quantized import (
    SCALE,
    VALUES,
    quantize,
    quantize_kernel,
)

TABLES = ("token", "decoder_token")
"""Modules whose `embedding` is a token table."""


def stored(params: Any, kind: str, scales: str) -> dict[str, Any]:
    """The parameters, those that a network with model.quantization reads as integers
    being stored as such: kernels of dense layers, and the token table.

    All are arrays of int8: files are compressed, so that what has two or three values
    takes less of a disk.

    Args:
      kind, scales: one of `quantized.QUANTIZATIONS`, one of `quantized.SCALES`.
    """

    def store(path: Any, leaf: Any) -> Any:
        names = tuple(str(key.key) for key in path)
        if names[-1] == "kernel":
            values, scale = quantize_kernel(leaf, kind, scales)
        elif names[-1] == "embedding" and names[-2] in TABLES:
            values, scale = quantize(leaf, kind, -1)
        else:
            return leaf
        return {VALUES: values, SCALE: scale}

    return jax.tree_util.tree_map_with_path(store, params)


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
