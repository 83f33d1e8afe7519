"""The config's optimizer section as an optax gradient transformation."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import optax

from research import networks
from research.contract.errors import UserError
from research.optimize import l0_gates
from research.optimize.layer_rates import (
    depths_and_top,
    scale_by_depth,
    scale_by_layer,
    unfreeze_gradually,
)
from research.optimize.max_norm import limit_norms
from research.optimize.moving_average import with_average_of_steps, with_moving_average
from research.optimize.options import OptimizerOptions
from research.optimize.pruning import Pruner
from research.optimize.schedule import make_schedule
from research.optimize.width_scaling import check_scaling, scale_rates

NETWORK = "network"
"""A value of optimizer.frozen."""


def is_frozen(params: Any, parts: str) -> Any:
    """True for each parameter below one of the paths in `parts`, as in "a,b/c".

    Args:
      parts: "network": all parameters except those of readouts and heads.

    Raises:
      UserError: no parameter is below one of the paths.
    """
    if parts == NETWORK:
        depths, top = depths_and_top(params)
        return jax.tree.map(lambda depth: bool(np.all(depth < top)), depths)
    names = [part.strip() for part in parts.split(",")]
    leaves = jax.tree_util.tree_leaves_with_path(params)
    paths = ["/".join(str(key.key) for key in path) + "/" for path, _ in leaves]
    for name in names:
        if not any(path.startswith(f"{name}/") for path in paths):
            known = sorted({path.partition("/")[0] for path in paths})
            raise UserError(
                f"optimizer.frozen: no parameter is below {name!r}; the network has "
                f"{', '.join(known)}; {NETWORK} is all but readouts and heads"
            )
    frozen = [path.startswith(tuple(f"{name}/" for name in names)) for path in paths]
    return jax.tree.unflatten(jax.tree.structure(params), frozen)


def stop_frozen(params: Any, parts: str) -> Any:
    """The parameters, with `stop_gradient` on those below the paths; "": none."""
    if not parts:
        return params
    return jax.tree.map(
        lambda leaf, stops: jax.lax.stop_gradient(leaf) if stops else leaf,
        params,
        is_frozen(params, parts),
    )


def make_optimizer(
    config: OptimizerOptions, steps: int, model: networks.Network | None = None
) -> optax.GradientTransformation:
    """Clipping, the chosen optimizer on its schedule, and the average, in order.

    Clipping is by global norm; the average is of the parameters.

    Args:
      model: the network, whose width scales rates with base_width.

    Frozen parameters do not count in norms, are not pruned, do not decay and have no
    moments.

    Raises:
      UserError: see `make_schedule`.
    """
    rate = optax.scale_by_learning_rate(make_schedule(config, steps))
    chain = config.rule.transforms()
    if config.frozen:
        chain = [_without_frozen(each, config.frozen) for each in chain]
    chain.append(rate)
    if config.base_width:
        assert model is not None
        check_scaling(config.name, model)
        chain.append(optax.stateless(scale_rates(model, config.base_width)))
    if config.layer_decay < 1:
        chain.append(optax.stateless(partial(scale_by_depth, config.layer_decay)))
    if config.layer_rates:
        chain.append(optax.stateless(partial(scale_by_layer, config.layer_rates)))
    if config.unfreeze_every:
        chain.append(unfreeze_gradually(config.unfreeze_every, steps))
    if config.max_norm:  # of the parameters after the step, so it comes last
        limit = limit_norms(config.max_norm)
        parts = config.frozen
        chain.append(_without_frozen(limit, parts) if parts else limit)
    optimizer = optax.chain(*chain)
    if config.clip_norm:
        optimizer = optax.chain(optax.clip_by_global_norm(config.clip_norm), optimizer)
    stays = partial(is_frozen, parts=config.frozen) if config.frozen else None
    if stays:
        freeze = optax.masked(optax.set_to_zero(), stays)
        optimizer = optax.chain(freeze, optimizer)
    if config.prune == "l0":
        rate = _score_rate(config, steps)
        optimizer = l0_gates.with_gates(optimizer, config.prune_penalty, rate, stays)
    elif config.prune != "none":
        optimizer = _make_pruner(config, steps).wrap(optimizer, stays)
    if config.ema_decay:
        optimizer = with_moving_average(optimizer, config.ema_decay)
    if config.average_from < 1:
        start = round(config.average_from * steps)
        optimizer = with_average_of_steps(optimizer, start)
    return optimizer


def _make_pruner(config: OptimizerOptions, steps: int) -> Pruner:
    """Raises UserError: pruning ends before it begins."""
    if config.prune_end < config.prune_begin:
        raise UserError(
            f"optimizer.prune_end is {config.prune_end:g}; it must be at least "
            f"optimizer.prune_begin, {config.prune_begin:g}"
        )
    return Pruner(
        config.prune,
        config.prune_scope,
        config.prune_kept,
        begin=round(config.prune_begin * steps),
        end=round(config.prune_end * steps),
        score_rate=_score_rate(config, steps),
        threshold=config.prune_threshold,
        penalty=config.prune_penalty,
    )


def _score_rate(config: OptimizerOptions, steps: int) -> Callable[[jax.Array], Any]:
    """The learning rate of scores by step, on the schedule of the others."""
    rate, peak = make_schedule(config, steps), config.learning_rate or 1.0
    return lambda count: config.prune_score_rate * rate(count) / peak


def _without_frozen(
    transform: optax.GradientTransformation, parts: str
) -> optax.GradientTransformation:
    """The transformation, applied only to parameters that are not frozen.

    Updates of frozen parameters stay zero. The state has the same structure as without
    frozen parameters, but no arrays for these, so checkpoints with moments for all
    parameters can be restored.
    """
    masked = optax.masked(
        transform, lambda params: jax.tree.map(operator.not_, is_frozen(params, parts))
    )

    def init(params: Any) -> Any:
        return masked.init(params).inner_state

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        updates, after = masked.update(updates, optax.MaskedState(state), params)
        return updates, after.inner_state

    return optax.GradientTransformation(init, update)
