"""Averages of the parameters over steps, kept in the optimizer's state."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from research.contract.state import State


class MovingAverage(NamedTuple):
    """The last part of the optimizer's state.

    So the average is checkpointed and sharded with that state.
    """

    count: jax.Array  # type: ignore[assignment]  # [] int32, number of updates in the average
    average: Any  # arrays like the parameters


def with_moving_average(
    optimizer: optax.GradientTransformation, decay: float
) -> optax.GradientTransformation:
    """The optimizer, extended to average the parameters after its updates.

    After update t the average is the sum over i <= t of decay^(t - i) params_i, divided
    by the sum of these weights: the initial parameters are not in it (Kingma and Ba
    2015, section 7.2, with bias correction; optax.ema with debias). fairseq
    (models/ema/ema.py) and timm (utils/model_ema.py) start with the initial parameters.
    """

    def weight(count: jax.Array) -> jax.Array:
        return (1 - decay) / -jnp.expm1(count * math.log(decay))

    return _with_average(optimizer, weight)


def with_average_of_steps(
    optimizer: optax.GradientTransformation, start: int
) -> optax.GradientTransformation:
    """The optimizer, extended to average the parameters after update `start` + 1.

    Until then the average is the parameters. The first ones after `start` are left out,
    as in PyTorch's ASGD with t0 = 0 (torch/optim/asgd.py), which trains AWD-LSTM.
    """

    def weight(count: jax.Array) -> jax.Array:
        return 1 / jnp.maximum(1, count - start - 1).astype(jnp.float32)

    return _with_average(optimizer, weight)


def _with_average(
    optimizer: optax.GradientTransformation, weight: Callable[[jax.Array], jax.Array]
) -> optax.GradientTransformation:
    """The optimizer, with an average of the parameters as the last part of its state.

    Args:
      weight: number of an update, from 1 -> the weight of its parameters.
    """

    def init(params: Any) -> MovingAverage:
        return MovingAverage(jnp.zeros((), jnp.int32), jax.tree.map(jnp.copy, params))

    def update(
        updates: Any, state: MovingAverage, params: Any
    ) -> tuple[Any, MovingAverage]:
        count = optax.safe_increment(state.count)
        average = optax.incremental_update(
            optax.apply_updates(params, updates), state.average, weight(count)
        )
        return updates, MovingAverage(count, average)

    return optax.chain(optimizer, optax.GradientTransformation(init, update))


def exchange_average(state: State) -> State:
    """The state with its average and its parameters exchanged: its own inverse.

    Without an average it is the state itself.

    The exchanged state is evaluated (`Evaluations`) and saved (`Checkpoints`): whoever
    reads the parameters of a checkpoint gets the average, and the run itself continues
    with the trained parameters.
    """
    *rest, last = state.opt_state
    if not isinstance(last, MovingAverage):
        return state
    exchanged = last._replace(average=state.params)
    return state._replace(params=last.average, opt_state=(*rest, exchanged))
