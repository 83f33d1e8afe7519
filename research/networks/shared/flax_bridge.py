"""Flax's init, apply and logical axes as functions, since only networks import Flax."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from flax import linen as nn

if TYPE_CHECKING:
    from research.networks.shared.protocol import BoundNetwork


def init(network: nn.Module, fn: Callable, key: jax.Array) -> Any:
    """The parameters that `fn(net)` uses, boxed with their logical axes.

    Only the parameters of the modules that `fn` calls are created. Trace it with
    `jax.eval_shape` or `jax.jit`.
    """
    return init_with_output(network, fn, key)[1]


def init_with_output(
    network: nn.Module, fn: Callable, key: jax.Array
) -> tuple[Any, Any]:
    """`fn(net)` and the parameters of `init`, from one trace."""
    output, variables = nn.init_with_output(_held(fn), network)({"params": key})
    return output, variables["params"]


def apply(
    network: nn.Module, params: Any, fn: Callable, dropout_key: jax.Array | None = None
) -> Any:
    """`fn(net)` of the network bound to its parameters (boxed or not).

    Args:
      dropout_key: None turns dropout off.
    """
    rngs = {} if dropout_key is None else {"dropout": dropout_key}
    return nn.apply(_held(fn), network)({"params": params}, rngs=rngs)


def _held(fn: Callable) -> Callable:
    """The function, which keeps a reference to the network while it runs.

    Flax's modules have only weak references to their parents. If a function continues
    with a part of the network, Python 3.13 deletes the rest.
    """

    def call(net: "BoundNetwork") -> Any:
        return fn(net)

    return call


def bound_params(net: "BoundNetwork") -> Any:
    """The parameters of a bound network, without their logical axes.

    During initialisation these are the parameters of the modules called so far.
    """
    return unbox(net.variables["params"])


def dropout_key(net: "BoundNetwork") -> jax.Array | None:
    """A new key for the dropout of another network; None without dropout."""
    return net.make_rng("dropout") if net.has_rng("dropout") else None


def with_options(network: "nn.Module | BoundNetwork", options: Any) -> nn.Module:
    """An unbound network with other options that serves the same needs.

    Args:
      network: bound or not; its attribute `options` is of the same class.
    """
    return network.clone(parent=None, options=options)


def logical_axes(params: Any) -> Any:
    """The logical axes of boxed parameters: a tree of `PartitionSpec`."""
    return nn.get_partition_spec(params)


def unbox(params: Any) -> Any:
    """The arrays (or shapes) without their logical axes."""
    is_box = lambda leaf: isinstance(leaf, nn.meta.AxisMetadata)  # noqa: E731
    return jax.tree.map(
        lambda leaf: leaf.unbox(apply_constraint=False) if is_box(leaf) else leaf,
        params,
        is_leaf=is_box,
    )


EMBEDDINGS = (
    "token",
    "decoder_token",
    "query_embedding",
    "embeddings",
    "encoder_embeddings",
    "decoder_embeddings",
    "image_embeddings",
)
SIDES = ("encoder", "decoder")
TOWERS = ("text", "image")
STACKS = ("stack", *SIDES)
AFTER_BLOCKS = ("norm", "attention")
BLOCKS, UPPER_BLOCKS = ("blocks", "image_blocks"), "fusion"
"""Names of modules in the tree of parameters, and so in checkpoints. "embeddings" has
those of positions and token types, and their norm; "image_blocks" are an image's stream
before it meets the text; "fusion" has the stacked parameters of only the last layers.
"""


FILTER = re.compile(r"(filter|bias)_\d+")
"""A parameter of a stack whose one layer is filters."""


def layer_depths(params: Any) -> Any:
    """The depth of each parameter, for learning rates by layer.

    In a network of n layers: 0 for embeddings (and a projection before the first
    block), 1 to n for blocks, n + 1 for what follows the last one (a final norm, the
    attention of an LSTM decoder), n + 2 for readouts and heads. If an encoder and a
    decoder, or two towers, differ in layers, n is the larger number, and the last block
    of each has depth n. The parameters of blocks are stacked, so their depths are an
    array [layers], or [1] for block_0, block_1, ... of a stack; all others are arrays
    []. Filters count as one layer.
    """
    per_side = _layers_per_side(params)
    num_layers = max(per_side.values(), default=0)

    def depth(path, leaf):
        if (own := _depth_of_layer(path, leaf)) is not None:
            return own + num_layers - per_side[_side(path)]
        names = _names(path)
        if UPPER_BLOCKS in names:
            return np.arange(num_layers - len(leaf), num_layers) + 1
        in_embeddings = names & {*EMBEDDINGS}
        if in_embeddings or names & {*STACKS}:
            follows = names & {*AFTER_BLOCKS} and not in_embeddings
            return np.array(num_layers + 1 if follows else 0)
        return np.array(num_layers + 2)

    return jax.tree_util.tree_map_with_path(depth, params)


def count_layers(params: Any) -> int:
    """n of `layer_depths`."""
    return max(_layers_per_side(params).values(), default=0)


def _layers_per_side(params: Any) -> dict[str, int]:
    """The number of layers of each `_side` that has some."""
    layers = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if (own := _depth_of_layer(path, leaf)) is not None:
            side = _side(path)
            layers[side] = max(layers.get(side, 0), int(np.max(own)))
    return layers


def _side(path: Any) -> str:
    """Which of `SIDES` or `TOWERS` a parameter is in; "": none."""
    return next((side for side in (*SIDES, *TOWERS) if side in _names(path)), "")


def _depth_of_layer(path: Any, leaf: Any) -> np.ndarray | None:
    """The depths of a parameter of a layer, from 1 in its side; None: of no layer."""
    names = _names(path)
    if names & {*BLOCKS}:
        return np.arange(1, len(leaf) + 1)
    blocks = (re.fullmatch(r"block_(\d+)", name) for name in names)
    if numbers := [int(match[1]) for match in blocks if match]:
        depth = np.array(max(numbers) + 1)
        return depth[None] if len(leaf) == 1 else depth
    if names & {*STACKS} and any(map(FILTER.fullmatch, names)):
        return np.array(1)
    return None


def _names(path: Any) -> set[str]:
    return {str(key.key) for key in path}


def logical_rules(rules: Sequence[tuple[str, Any]]) -> AbstractContextManager:
    """A context in which these rules map logical names to mesh axes during tracing."""
    return nn.logical_axis_rules(rules)


def constrain(x: jax.Array, *names: str | None) -> jax.Array:
    """x with the sharding of these logical names; x itself outside of any rules."""
    return nn.with_logical_constraint(x, names)
