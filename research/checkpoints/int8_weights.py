"""Parameters as 8-bit integers: how they are stored, and read as float32.

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
    kernel_scale,
    scale_of,
    to_int8,
)

TABLES = ("token", "decoder_token")
"""Modules whose `embedding` is a token table."""


def stored(params: Any, scales: str) -> dict[str, Any]:
    """The parameters, those that a network with model.quantization=int8 reads as
    integers being stored as such: kernels of dense layers, and the token table.

    Args:
      scales: one of `quantized.SCALES`.
    """

    def store(path: Any, leaf: Any) -> Any:
        names = tuple(str(key.key) for key in path)
        if names[-1] == "kernel":
            scale = kernel_scale(leaf, scales)
        elif names[-1] == "embedding" and names[-2] in TABLES:
            scale = scale_of(leaf, -1)
        else:
            return leaf
        return {VALUES: to_int8(leaf, scale), SCALE: scale}

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
