"""Learning rates by layer: layer-wise decay, given factors, gradual unfreezing."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from research import networks
from research.contract.errors import UserError


def scale_by_depth(decay: float, updates: Any, params: Any) -> Any:
    """Updates x decay^(number of layers above the parameter).

    Heads have the full learning rate, the last block decay^2 of it, the first of n
    blocks decay^(n + 1), embeddings decay^(n + 2) (Clark et al. 2020, the released
    code). An encoder and a decoder each count their layers from their own top.
    """
    depths, top = depths_and_top(updates)
    factors = jax.tree.map(lambda depth: decay ** (top - depth), depths)
    return _scale_layers(factors, updates)


def scale_by_layer(rates: Sequence[float], updates: Any, params: Any) -> Any:
    """Updates x a given factor per layer.

    Args:
      rates: factors of embeddings, of each of n blocks from the lowest on, and of
        readouts and heads. What follows the last block (a final norm) has the factor of
        the last block; a token table that is also the readout has that of embeddings.

    Raises:
      UserError: there are not n + 2 factors.
    """
    depths, top = depths_and_top(updates)
    if len(rates) != top:
        raise UserError(
            f"optimizer.layer_rates must have {top} factors, of embeddings, "
            f"{top - 2} layers and heads; got {len(rates)}"
        )
    by_depth = np.array([*rates[:-1], rates[-2], rates[-1]])
    factors = jax.tree.map(lambda depth: by_depth[depth], depths)
    return _scale_layers(factors, updates)


def unfreeze_gradually(every: int, steps: int) -> optax.GradientTransformation:
    """Sets the updates of layers that do not learn yet to zero.

    Heads learn from step 0, the last block (with a final norm) from step `every`, each
    block below `every` steps later, embeddings last (Howard and Ruder 2018, section
    3.3: one layer per epoch; fastai, imdb_scripts/train_clas.py, freeze_to). The last
    blocks of an encoder and a decoder start together. A layer that does not learn yet
    does not decay either. Unlike in fastai, it has moments and its gradient counts in
    the norm.

    Raises:
      UserError: by `init`, if the run ends before the embeddings learn.
    """

    def first_steps(params: Any) -> Any:
        depths, top = depths_and_top(params)
        return jax.tree.map(
            lambda depth: every * np.maximum(top - 1 - depth, depth < top), depths
        )

    def init(params: Any) -> optax.ScaleByScheduleState:
        last = max(map(np.max, jax.tree.leaves(first_steps(params))), default=0)
        if last >= steps:
            raise UserError(
                f"optimizer.unfreeze_every={every}: the last layer would learn from "
                f"step {last} of train.steps={steps} on; make it smaller"
            )
        return optax.ScaleByScheduleState(jnp.zeros((), jnp.int32))

    def update(
        updates: Any, state: optax.ScaleByScheduleState, params: Any
    ) -> tuple[Any, optax.ScaleByScheduleState]:
        learns = jax.tree.map(lambda first: state.count >= first, first_steps(updates))
        count = optax.safe_increment(state.count)
        return _scale_layers(learns, updates), optax.ScaleByScheduleState(count)

    return optax.GradientTransformation(init, update)


def depths_and_top(params: Any) -> tuple[Any, int]:
    """`networks.layer_depths` and the depth of heads."""
    return networks.layer_depths(params), networks.count_layers(params) + 2


def _scale_layers(factors: Any, updates: Any) -> Any:
    """Updates x their factors: [layers] for parameters that are stacked, else []."""

    def scale(factor: float | np.ndarray, update: jax.Array) -> jax.Array:
        rates = jnp.asarray(factor, update.dtype)
        return update * rates.reshape(-1, *[1] * (update.ndim - 1))

    return jax.tree.map(scale, factors, updates)
