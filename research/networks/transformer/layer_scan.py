"""Runs the layers of a stack: scanned or unrolled, rematerialised by policy."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from research.networks.shared.dense import DENSE_PRODUCT
from research.networks.transformer.options import TransformerOptions as Options


def run_layers(options: Options, run_block: Callable, x, layers: Any, scored):
    """Runs all blocks, the last one only at the scored positions, if there are any.

    Args:
      run_block: (x, layer, scored) -> x, and other outputs of the layer. x may be any
        tree of arrays.
      layers: (params, ...), stacked over the layers, except params that layers share.

    Returns:
      x, and the other outputs stacked over the layers.
    """
    params, *others = layers
    if options.shared_layers:
        params = jax.tree.map(lambda leaf: leaf[0], params)
        layers = (None, *others)

    def run(x, layer, scored=None):
        layer = (params, *layer[1:]) if options.shared_layers else layer
        return run_block(x, layer, scored)

    count, unroll, remat = options.layers, options.scan_unroll, REMAT[options.remat]
    if options.mixes_layers:  # the carried outputs grow from layer to layer
        unroll = count
    is_scanned = unroll < count - (scored is not None)
    run_all = remat(run, prevent_cse=not is_scanned)
    if scored is None:
        return _scan_or_unroll(run_all, x, layers, count, unroll)
    run_scored = remat(partial(run, scored=scored), prevent_cse=True)
    first, last = split_layers(layers, (count - 1, 1))
    x, outputs = _scan_or_unroll(run_all, x, first, count - 1, unroll)
    x, output = run_scored(x, jax.tree.map(lambda leaf: leaf[0], last))
    return x, _append(outputs, output)


def _scan_or_unroll(run, x, layers, count, unroll):
    """Feeds x through `count` layers, `unroll` layers per step of a scan.

    Returns:
      x, and the other outputs stacked over the layers, None if there are none.
    """
    if unroll < count:
        return lax.scan(run, x, layers, count, unroll=unroll)
    outputs = None
    for layer in split_layers(layers, (1,) * count):
        x, output = run(x, jax.tree.map(lambda leaf: leaf[0], layer))
        outputs = _append(outputs, output)
    return x, outputs


def _append(outputs, output):
    """The stacked outputs of the first layers, with the output of the next appended."""
    if outputs is None:
        return jax.tree.map(lambda leaf: leaf[None], output)
    return jax.tree.map(
        lambda leaves, leaf: jnp.concatenate([leaves, leaf[None]]), outputs, output
    )


def split_layers(layers, sizes):
    """Splits stacked leaves along the layers; the gradient is one concatenation."""
    parts = jax.tree.map(lambda leaf: lax.split(leaf, sizes), layers)
    outer = jax.tree.structure(layers)
    if not outer.num_leaves:
        return [layers] * len(sizes)
    return jax.tree.transpose(outer, jax.tree.structure([0] * len(sizes)), parts)


def _save_everything(body, *, prevent_cse):
    return body


REMAT: Mapping[str, Callable] = {
    "none": _save_everything,
    "dots": partial(
        jax.checkpoint,
        policy=jax.checkpoint_policies.save_only_these_names(DENSE_PRODUCT),
    ),
    "full": jax.checkpoint,
}
"""What a block saves for its gradient: all, products of dense layers, or its input."""
