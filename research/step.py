"""Terms to gradient to update: one division, over the whole global batch."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from research import models
from research.objectives.losses.cross_entropy import Term
from research.run.state import GRADIENT_NORM, State


def value(terms: dict[str, Term], weights: dict[str, jax.Array]) -> jax.Array:
    """sum(coef * total / weight) over the terms; one of weight 0 counts nothing."""
    loss = jnp.zeros((), jnp.float32)
    for name, term in terms.items():
        weight = weights[name]
        mean = term.total / jnp.where(weight > 0, weight, 1.0)
        loss += term.coef * jnp.where(weight > 0, mean, 0.0)
    return loss


def sums(terms: dict[str, Term]) -> dict[str, tuple[jax.Array, ...]]:
    """What is added up over micro-batches, steps and batches of an evaluation.

    name -> (total, weight, coef * weight), so that the sums alone tell the loss.
    """
    return {
        name: (term.total, term.weight, term.coef * term.weight)
        for name, term in terms.items()
    }


def _micro_batches(tree: Any, accumulate: int) -> Any:
    """[B, ...] to [A, B / A, ...]: micro-batch m takes rows m::A, none moves device."""

    def split(x):
        return jnp.swapaxes(x.reshape(-1, accumulate, *x.shape[1:]), 0, 1)

    return jax.tree.map(split, tree)


def _joined(tree: Any) -> Any:
    """The inverse of `_micro_batches`."""

    def join(x):
        return jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:])

    return jax.tree.map(join, tree)


def gradient(
    objective: Any,
    network: Any,
    params: Any,
    batch: dict,
    *,
    key: jax.Array,
    dropout_key: jax.Array | None,
    accumulate: int = 1,
) -> tuple[Any, dict, Any]:
    """The gradient of the whole batch's loss, exact for any number of micro-batches.

    Weights do not depend on parameters, so with accumulation a first pass takes them
    alone (the network is dead code there); the second adds up one gradient.

    Args:
      batch: arrays [B, ...], and `carry`, batch-major.
      key: of what the loss samples; the same for every micro-batch.
      dropout_key: None without dropout.

    Returns:
      the gradient, the `sums` of the batch, and the carry.
    """

    def loss(params, batch, dropout_key, weights=None):
        terms, carry = models.apply(
            network, params, lambda net: objective.loss(net, batch, key), dropout_key
        )
        if weights is None:
            weights = {name: term.weight for name, term in terms.items()}
        return value(terms, weights), (sums(terms), carry)

    grad = jax.grad(loss, has_aux=True)
    if accumulate == 1:
        grads, (totals, carry) = grad(params, batch, dropout_key)
        return grads, totals, carry

    parts = _micro_batches(batch, accumulate)
    totals_of = jax.lax.map(lambda part: loss(params, part, dropout_key)[1][0], parts)
    weights = {name: term[1].sum() for name, term in totals_of.items()}

    def one(grads, part_and_index):
        part, index = part_and_index
        noise = None if dropout_key is None else jax.random.fold_in(dropout_key, index)
        more, aux = grad(params, part, noise, weights)
        return jax.tree.map(jnp.add, grads, more), aux

    zero = jax.tree.map(jnp.zeros_like, params)
    grads, (totals, carry) = jax.lax.scan(one, zero, (parts, jnp.arange(accumulate)))
    return grads, jax.tree.map(lambda x: x.sum(0), totals), _joined(carry)


def make_step(
    objective: Any,
    network: Any,
    optimizer: optax.GradientTransformation,
    *,
    seed: int,
    accumulate: int,
    dropout: bool,
    log_every: int,
) -> Callable[[State, dict], State]:
    """One update. `State.sums` starts anew after each `log_every` steps."""

    def step(state: State, batch: dict) -> State:
        key = jax.random.fold_in(jax.random.key(seed), state.step)
        sample, drop = jax.random.split(key)
        grads, totals, carry = gradient(
            objective,
            network,
            state.params,
            batch | {"carry": state.carry},
            key=sample,
            dropout_key=drop if dropout else None,
            accumulate=accumulate,
        )
        norm, one = optax.tree.norm(grads), jnp.ones((), jnp.float32)
        totals = totals | {GRADIENT_NORM: (norm, one, 0.0 * one)}
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        keep = jnp.where(state.step % log_every == 0, 0.0, 1.0)
        return State(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
            carry=carry,
            sums=jax.tree.map(lambda old, new: old * keep + new, state.sums, totals),
        )

    return step


def make_evaluate(objective: Any, network: Any, *, seed: int) -> Callable:
    """Sums of one batch added to the sums so far, without dropout.

    What a loss samples depends on the seed and the example alone.
    """

    def evaluate(params: Any, carry: Any, so_far: dict, batch: dict):
        terms, carry = models.apply(
            network,
            params,
            lambda net: objective.loss(
                net, batch | {"carry": carry}, jax.random.key(seed)
            ),
            None,
        )
        return jax.tree.map(jnp.add, so_far, sums(terms)), carry

    return evaluate
