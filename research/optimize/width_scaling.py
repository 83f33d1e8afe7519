"""Initial values and learning rates by width: maximal update parametrisation (muP).

Yang et al. 2022, arXiv:2203.03466, table 3: the form without multipliers, so that a
trained network is computed like any other. With it, the best learning rate at one width
is about the best at others. m is model.width / optimizer.base_width:

parameter                        initial values x    rate x
kernels of blocks and heads      m^-1/2              1 / m
output table, last layer of a    1 / m               1 / m
head
embeddings, biases, norms        1                   1

Attention logits are scaled by 1 / key width instead of its square root, from the base
width on: if heads become wider, kernels and biases of queries have another m^-1/2.
"""

from collections.abc import Callable
from typing import Any

import jax

from research import networks
from research.contract.errors import UserError
from research.contract.parts import Folder
from research.optimize.rules import OPTIMIZERS

INITS = ("normal", "truncated", "gpt2", "zero_residual")
"""Values of model.init whose standard deviations do not depend on the width."""


def check_scaling(rule: str, model: networks.Network) -> None:
    """Raises UserError: widths of this network or optimizer cannot be compared."""
    needed = {
        "optimizer.name": (rule, _able(OPTIMIZERS, "step_is_rate")),
        "model.network": (
            model.name,
            _able(networks.FOLDER, "scales_with_width"),
        ),
        "model.init": (model.init, INITS),
        "model.tie_embeddings": (model.tie_embeddings, (False,)),
    }
    for key, (value, legal) in needed.items():
        if value not in legal:
            known = " or ".join(map(str, legal))
            raise UserError(f"optimizer.base_width needs {key} {known}, got {value}")


def _able(folder: Folder, ability: str) -> list[str]:
    """The parts whose class has this attribute set."""
    names = folder.names()
    return [n for n in names if getattr(folder.part_class(n, "name"), ability)]


def initial_values(params: Any, model: networks.Network, base_width: int) -> Any:
    """Initial parameters (boxed or not) x the factors of the second column."""
    ratio, of_query = _ratios(model, base_width)
    factors = _by_kind(
        networks.unbox(params), hidden=ratio**-0.5, output=1 / ratio, query=of_query
    )
    leaves, structure = jax.tree.flatten(params)
    scaled = [x * f for x, f in zip(leaves, jax.tree.leaves(factors), strict=True)]
    return jax.tree.unflatten(structure, scaled)


def scale_rates(model: networks.Network, base_width: int) -> Callable[[Any, Any], Any]:
    """A function of updates that multiplies them by the factors of the third."""
    ratio, of_query = _ratios(model, base_width)

    def scale(updates: Any, params: Any) -> Any:
        factors = _by_kind(
            updates,
            hidden=1 / ratio,
            output=1 / ratio,
            query=of_query,
            query_bias=of_query,
        )
        return jax.tree.map(lambda x, f: x * f, updates, factors)

    return scale


def _ratios(model: Any, base_width: int) -> tuple[float, float]:
    ratio = model.width / base_width
    return ratio, 1.0 if model.head_width else ratio**-0.5


def _by_kind(
    params: Any,
    *,
    hidden: float,
    output: float,
    query: float,
    query_bias: float = 1.0,
) -> Any:
    """The factor of each parameter, by its path."""

    def factor(path: tuple[jax.tree_util.DictKey, ...], _: Any) -> float:
        names = [str(key.key) for key in path]
        if names[-2:] == ["query", "bias"]:
            return query_bias
        if names[-1] == "embedding" and "output" in names:
            return output
        if names[-1] != "kernel" or names[-2] == "project":
            return 1.0
        if names[-2] == "out" and names[-3].startswith("head_"):
            return output
        return hidden * query if names[-2] == "query" else hidden

    return jax.tree_util.tree_map_with_path(factor, params)
