"""The train state: created sharded, the same for any mesh."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from research import models
from research.distributed import sharding

GRADIENT_NORM = "gradient_norm"


class State(NamedTuple):
    """Everything a step changes."""

    step: jax.Array  # int32: steps done
    params: Any
    opt_state: Any
    carry: Any  # an objective's memory, batch-major; () for most
    sums: Any  # {name: (total, weight, coef * weight)} since the last log


def zeros(specs: dict, batch: int) -> dict[str, jax.Array]:
    """A batch of zeros in the shapes of an objective's arrays."""
    return {
        name: jnp.zeros((batch, *spec.shape), spec.dtype)
        for name, spec in specs.items()
    }


def initializer(
    objective: Any, network: Any, optimizer: optax.GradientTransformation, specs, batch
) -> Callable[[jax.Array], State]:
    """A function from a random key to the state before step 0.

    The parameters are those that the loss calls for. The parameter leaves are boxed
    with their logical axes; `unboxed` and `shardings` part the two.
    """

    def loss(net, carry=None):
        empty = zeros(specs, batch) | {"carry": carry}
        return objective.loss(net, empty, jax.random.key(0))

    def init(key: jax.Array) -> State:
        params = models.init(network, loss, key)
        plain = models.unbox(params)
        terms, carry = jax.eval_shape(
            lambda p: models.apply(network, p, loss, None), plain
        )
        nothing = jnp.zeros((), jnp.float32)
        return State(
            step=jnp.zeros((), jnp.int32),
            params=params,
            opt_state=optimizer.init(plain),
            carry=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), carry),
            sums={name: (nothing,) * 3 for name in [*terms, GRADIENT_NORM]},
        )

    return init


def unboxed(state: State) -> State:
    return state._replace(params=models.unbox(state.params))


def shardings(boxed: State, optimizer: Any, mesh: Mesh) -> State:
    """Where each leaf of the state lies; `boxed` is the abstract state.

    Optimizer state lies with its parameter where their shapes agree, and is replicated
    elsewhere (AdaFactor's rows and columns).
    """
    whole = sharding.replicated(mesh)
    shapes = models.unbox(boxed.params)
    params = jax.tree.map(
        lambda names, leaf: sharding.parameter_sharding(names, leaf.shape, mesh),
        models.logical_axes(boxed.params),
        shapes,
        is_leaf=sharding.is_axes,
    )
    opt_state = optax.tree.map_params(
        optimizer,
        lambda leaf, param, where: where if leaf.shape == param.shape else whole,
        boxed.opt_state,
        shapes,
        params,
        transform_non_params=lambda _: whole,
    )
    return State(
        step=whole,
        params=params,
        opt_state=opt_state,
        carry=jax.tree.map(lambda _: sharding.batch_sharding(mesh), boxed.carry),
        sums=jax.tree.map(lambda _: whole, boxed.sums),
    )


def count(params: Any) -> int:
    """Numbers in a tree of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
