"""Recipes: each makes a trained network smaller, without more training."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from research import networks
from research.checkpoints.checkpoint import path_name
from research.contract.errors import UserError
from research.contract.parts import PartTable
from research.interop import int8_weights
from research.networks.shared.quantized import SPLIT, within
from research.optimize import pruning
from research.program.setup import Program
from research.use.shrinking import heads, ranges
from research.use.shrinking.splitting import split_weights

BLOCKS = "blocks"
MOST_ZEROS = 0.01
"""The fraction of weights above which a network counts as pruned."""


class Request(NamedTuple):
    """The arguments of a recipe; each recipe reads some of them."""

    kept: float = 0.5  # the fraction that stays, as of heads
    layers: tuple[int, ...] = ()  # those to keep, from 0; (): every nth
    importance: str = heads.DEFINITIONS[0]
    scope: str = pruning.SCOPES[0]
    scale: str = ""  # model.quantization_scale; "": that of the run
    range: str = ""  # model.quantization_range; "": that of the run
    batches: int = 8  # of the training text, to measure on


class Shrunk(NamedTuple):
    """A smaller network."""

    keys: dict[str, Any]  # keys of the section `model` that differ
    params: Any  # on the host, float32
    says: str  # what was done, for the report
    is_saved_as_float: bool = False  # although it computes with integers: for tuning
    layers: tuple[int, ...] = ()  # those that were kept, from 0; (): all


def keep_heads(program: Program, params: Any, request: Request) -> Shrunk:
    """Keeps the most important heads of each layer, equally many in each.

    Their number is the same since layers are one stacked array. Input ranges depend on
    all heads, so they are left out, and `fit` measures them again.
    """
    options = program.network.options
    heads.check_heads(options, params)
    count = max(1, round(request.kept * options.heads))
    measure = heads.make_importance(program, request.importance, request.batches)
    chosen = heads.most_important(measure(params), count)
    keys = {"heads": count, "head_width": options.key_width}
    if options.num_kv_heads:
        keys["num_kv_heads"] = count
    own = int8_weights.without_ranges(_on_host(params))
    own = heads.keep_heads(own, chosen, options.key_width)
    numbers = "; ".join(" ".join(map(str, row)) for row in chosen)
    return Shrunk(keys, own, f"heads that stay, by layer: {numbers}")


def keep_layers(program: Program, params: Any, request: Request) -> Shrunk:
    """Keeps every nth layer (Fan et al. 2020, section 4.2), or those of the request.

    Raises:
      UserError: the network has no layers that can be dropped, or lacks these layers.
    """
    options = program.network.options
    names = ("shared_layers", "decoder_layers", "window")
    is_stack = networks.Ability.LAYERS in options.abilities
    for name in names if is_stack else ("layers", *names):
        if value := getattr(options, name, 0):
            raise UserError(f"--recipe=layers is not for model.{name} {value}")
    if getattr(options, "mixes_layers", False):
        raise UserError(
            f"--recipe=layers is not for model.layer_mixing {options.layer_mixing}"
        )
    if "features" in params:
        raise UserError("--recipe=layers is not for objective.features of all layers")
    count = max(1, round(request.kept * options.layers))
    chosen = request.layers or tuple(
        (number + 1) * options.layers // count - 1 for number in range(count)
    )
    if max(chosen) >= options.layers:
        raise UserError(
            f"--layers names layer {max(chosen)}, but the network has layers 0 to "
            f"{options.layers - 1}"
        )

    def keep(path: Any, leaf: Any) -> Any:
        in_blocks = BLOCKS in {str(key.key) for key in path}
        return leaf[np.array(chosen)] if in_blocks else leaf

    own = jax.tree_util.tree_map_with_path(keep, _on_host(params))
    numbers = " ".join(map(str, chosen))
    keys = {"layers": len(chosen)}
    if not options.first_attention_norm and chosen[0] > 0:
        keys["first_attention_norm"] = True  # the layer that skips it is gone
    says = f"layers that stay, from 0: {numbers}"
    return Shrunk(keys, own, says, layers=tuple(chosen))


def prune(program: Program, params: Any, request: Request) -> Shrunk:
    """Sets the smallest weights of the blocks' kernels to 0; shapes are unchanged.

    Raises:
      UserError: the network has no such kernels, or cannot represent 0.
    """
    pruning.check_prunable(program.network.options, params, "--recipe=prune")
    own = pruning.prune_smallest(params, request.kept, request.scope)
    of = {"matrix": "of each matrix", "global": "of all matrices together"}
    says = f"{request.kept:.0%} of the weights of blocks are left, {of[request.scope]}"
    return Shrunk({}, _on_host(own), says)


def to_integers(
    program: Program, params: Any, request: Request, *, kind: str
) -> Shrunk:
    """Quantizes dense layers and the token table to integers of a kind.

    Raises:
      UserError: the network has no such key, is split although the kind is not binary,
        or is pruned although the kind has no zeros.
    """
    options = program.network.options
    if networks.Ability.LAYERS not in options.abilities:
        raise UserError(
            f"--recipe={kind}: model.network {options.name} has no model.quantization"
        )
    if options.quantization == SPLIT:
        if kind != "binary":
            raise UserError(
                f"--recipe={kind}: the network is split already; --recipe=binary makes "
                "both of its parts integers"
            )
        kind = SPLIT
    if kind == "binary" and (zeros := _fraction_of_zeros(params)) > MOST_ZEROS:
        raise UserError(
            f"--recipe=binary: {zeros:.0%} of the weights of blocks are 0, as pruning "
            "leaves them, and binary weights are not; use ternary or int8"
        )
    scale = request.scale or options.quantization_scale
    limits = request.range or options.quantization_range
    keys = {
        "quantization": kind,
        "quantization_scale": scale,
        "quantization_range": limits,
    }
    says = f"a scale for each {scale}; inputs by {limits}"
    return Shrunk(keys, _on_host(params), says)


def _fraction_of_zeros(params: Any) -> float:
    """The fraction of zeros among the weights that pruning may set to 0."""
    kernels = map(np.asarray, jax.tree.leaves(pruning.select(params)))
    is_zero = np.concatenate([np.ravel(kernel == 0) for kernel in kernels])
    return float(is_zero.mean())


def split(program: Program, params: Any, request: Request) -> Shrunk:
    """Each ternary kernel and table becomes the sum of two binary ones (`splitting`).

    Raises:
      UserError: the network is not ternary, some weights cannot be split, or a part
        exceeds model.quantization_clip.
    """
    del request
    options = program.network.options
    if options.quantization != "ternary":
        raise UserError(
            "--recipe=split splits ternary weights, but model.quantization is "
            f"{options.quantization}; tune a run with model.quantization=ternary"
        )

    def split_kernel(weight: Any, axis: Any, name: str) -> Any:
        clip = options.quantization_clip
        parts = split_weights(np.asarray(within(weight, clip)), axis, name)
        if clip and np.abs(parts).max() > clip:
            raise UserError(
                f"--recipe=split: a binary part of {name} is beyond "
                f"model.quantization_clip={clip}, so that both would not add up; tune "
                "the run with a larger one"
            )
        return parts

    own = int8_weights.map_quantized(
        split_kernel, _on_host(params), options.quantization_scale
    )
    says = (
        "each ternary weight is the sum of two binary ones; saved as float32, to be "
        "tuned: --recipe=binary then makes integers of it"
    )
    return Shrunk({"quantization": SPLIT}, own, says, is_saved_as_float=True)


class Recipe(NamedTuple):
    """A way to make a network smaller: a value of --recipe."""

    make: Callable[[Program, Any, Request], Shrunk]
    reads: tuple[str, ...]  # fields of a request, also those that `fit` reads
    line: str  # what it does, for users


def _integers(kind: str, line: str) -> Recipe:
    reads = ("scale", "range", "batches")
    return Recipe(partial(to_integers, kind=kind), reads, line)


RECIPES: Mapping[str, Recipe] = {
    "heads": Recipe(
        keep_heads,
        ("kept", "importance", "batches"),
        "the most important attention heads of each layer stay",
    ),
    "layers": Recipe(
        keep_layers,
        ("kept", "layers"),
        "every nth layer stays, or those of --layers",
    ),
    "prune": Recipe(prune, ("kept", "scope"), "small weights become zeros"),
    "split": Recipe(
        split,
        (),
        "each weight of a ternary run is the sum of two binary ones (BinaryBERT), "
        "which computes the same and is to be tuned",
    ),
    "int8": _integers("int8", "dense layers and the token table become 8-bit integers"),
    "ternary": _integers(
        "ternary", "integers of three values, which need training to be of use"
    ),
    "binary": _integers(
        "binary", "integers of two values, which need training to be of use"
    ),
}


LISTED = PartTable(
    "Recipes of smaller networks",
    "shrink --recipe",
    {name: recipe.line for name, recipe in RECIPES.items()},
)


def fit(program: Program, params: Any, request: Request) -> Any:
    """The parameters, with those that only the smaller network has.

    These are input ranges, which are measured if it reads them.

    Args:
      program: that of the smaller network.
      params: those of the recipe.
    """
    shapes = program.abstract_state.params
    of_recipe = {
        path_name(path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: of_recipe.get(
            path_name(path), np.zeros(leaf.shape, leaf.dtype)
        ),
        shapes,
    )
    if len(of_recipe) == len(jax.tree.leaves(shapes)):
        return params
    measured = ranges.measure_ranges(program, params, request.batches)
    return ranges.with_ranges(params, measured)


def _on_host(params: Any) -> Any:
    return jax.tree.map(np.asarray, jax.device_get(params))
