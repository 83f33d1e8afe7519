"""How a network meets its parameters, so that nobody else needs to know flax."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from flax import linen as nn


def init(network: nn.Module, fn: Callable, key: jax.Array) -> Any:
    """The parameters that `fn(net)` uses, boxed with their logical axes.

    Only what `fn` calls is created. Trace it with `jax.eval_shape` or `jax.jit`.
    """
    return nn.init(fn, network)({"params": key})["params"]


def apply(
    network: nn.Module, params: Any, fn: Callable, dropout_key: jax.Array | None = None
) -> Any:
    """`fn(net)` of the network bound to its parameters (boxed or not).

    Args:
      dropout_key: dropout is on if and only if it is given.
    """
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    return nn.apply(fn, network)({"params": params}, rngs=rngs)


def axes(params: Any) -> Any:
    """The logical axes of boxed parameters: a tree of `PartitionSpec`."""
    return nn.get_partition_spec(params)


def unbox(params: Any) -> Any:
    """The arrays (or shapes) alone, without their logical axes."""
    is_box = lambda leaf: isinstance(leaf, nn.meta.AxisMetadata)  # noqa: E731
    return jax.tree.map(
        lambda leaf: leaf.unbox(apply_constraint=False) if is_box(leaf) else leaf,
        params,
        is_leaf=is_box,
    )


TABLES = ("token", "place", "encoder_place", "decoder_place")
STACKS = ("stack", "encoder", "decoder")


def depths(params: Any) -> Any:
    """How far from the input each parameter of a network acts, from 0 on.

    Of n layers: tables 0 (with what stands between them and the first block), blocks 1
    to n, a last norm n + 1, readouts and heads n + 2. Blocks are stacked, and so their
    depth is an array [layers]; all others are arrays [].
    """
    leaves = jax.tree_util.tree_leaves_with_path(params)
    names = {path: {str(key.key) for key in path} for path, _ in leaves}
    blocks = [len(leaf) for path, leaf in leaves if "blocks" in names[path]]
    top = max(blocks, default=0)

    def depth(path, leaf):
        if "blocks" in names[path]:
            return np.arange(1, len(leaf) + 1)
        if names[path] & {*TABLES, *STACKS}:
            last = "norm" in names[path] and not names[path] & {*TABLES}
            return np.array(top + 1 if last else 0)
        return np.array(top + 2)

    return jax.tree_util.tree_map_with_path(depth, params)


def logical_rules(rules: Sequence[tuple[str, Any]]) -> AbstractContextManager:
    """Enters the map of logical names to mesh axes while a step is traced."""
    return nn.logical_axis_rules(rules)


def constrain(x: jax.Array, *names: str | None) -> jax.Array:
    """x, sharded as the rules say for these logical names; x where there are none."""
    return nn.with_logical_constraint(x, names)
