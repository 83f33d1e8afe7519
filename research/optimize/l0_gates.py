"""L0 pruning while a network trains: weights times gates, which each step draws.

Louizos et al. 2018, sections 2.2 and 2.3; huggingface/transformers-research-projects,
movement-pruning/emmental/modules/masked_nn.py (l0) and masked_run_glue.py
(regularization). Between steps the parameters are the weights times the gates without
noise, many of which are 0: all code that reads them sees the pruned network. A step
draws gates and computes the gradient for the weights times these gates.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from research.optimize.pruning import SCORE_BETAS, merge, select, select_like

LOW, HIGH, TEMPERATURE = -0.1, 1.1, 2 / 3
"""Of the hard concrete distribution: gates are stretched to LOW..HIGH, then clipped."""
INITIAL_SCORE = 2.197
"""The initial score: a gate without noise is .98 (mask_scale of the released code)."""
NOISE_RANGE = 1e-4, 1 - 1e-4


class Gated(NamedTuple):
    """The state of an optimizer with gates, which only kernels have."""

    score: Any  # log alpha of each weight
    score_moments: Any  # Adam's moments of scores
    weight: Any  # without gates
    noise: jax.Array  # data of the key of the gates drawn in this step
    count: jax.Array  # type: ignore[assignment]  # [] int32, number of updates
    inner: Any  # state of the optimizer


def gate(score: jax.Array, noise: jax.Array | None = None) -> jax.Array:
    """The gates [...] in [0, 1] of scores, log alpha.

    Args:
      noise: uniform in (0, 1); None: the gates of evaluations (equation 13).
    """
    if noise is not None:
        score = (jnp.log(noise) - jnp.log1p(-noise) + score) / TEMPERATURE
    stretched = jax.nn.sigmoid(score) * (HIGH - LOW) + LOW
    return jnp.clip(stretched, 0.0, 1.0)


def penalty(score: jax.Array) -> jax.Array:
    """The mean probability that a drawn gate is not 0 (equation 12)."""
    shift = TEMPERATURE * math.log(-LOW / HIGH)
    return jnp.mean(jax.nn.sigmoid(score - shift))


def with_gates(
    optimizer: optax.GradientTransformation,
    factor: float,
    score_rate: Callable[[jax.Array], Any],
    is_frozen: Callable[[Any], Any] | None = None,
) -> optax.GradientTransformation:
    """The optimizer, extended to train weights and gates; call `draw` before each step.

    Args:
      factor: of the mean of `penalty` over all matrices, which is added to the loss.
      score_rate: the learning rate of scores by step.
      is_frozen: as in `research.optimize.pruning.select`, which its `init` calls.
    """
    moments = optax.scale_by_adam(*SCORE_BETAS)

    def init(params: Any) -> Gated:
        pruned = select(params, is_frozen)
        score = jax.tree.map(lambda leaf: jnp.full_like(leaf, INITIAL_SCORE), pruned)
        return Gated(
            score=score,
            score_moments=moments.init(score),
            weight=jax.tree.map(jnp.copy, pruned),
            noise=jax.random.key_data(jax.random.key(0)),
            count=jnp.zeros((), jnp.int32),
            inner=optimizer.init(params),
        )

    def update(grads: Any, state: Gated, params: Any) -> tuple[Any, Gated]:
        num_matrices = sum(len(leaf) for leaf in jax.tree.leaves(state.score))

        def product(score: Any, weight: Any) -> Any:
            drawn = _drawn_gates(score, state.noise)
            return jax.tree.map(jnp.multiply, weight, drawn)

        def penalties(score: Any) -> jax.Array:
            each = [jnp.sum(jax.vmap(penalty)(s)) for s in jax.tree.leaves(score)]
            return factor / num_matrices * jnp.asarray(sum(each))

        _, pull = jax.vjp(product, state.score, state.weight)
        of_score, of_weight = pull(select_like(grads, state.score))
        of_score = jax.tree.map(jnp.add, of_score, jax.grad(penalties)(state.score))
        change, score_moments = moments.update(of_score, state.score_moments)
        rate = score_rate(state.count)
        score = jax.tree.map(lambda s, c: s - rate * c, state.score, change)
        dense = merge(params, state.weight)
        updates, inner = optimizer.update(merge(grads, of_weight), state.inner, dense)
        weight = select_like(optax.apply_updates(dense, updates), state.score)
        own = jax.tree.map(
            lambda w, s, old: w * gate(s) - old,
            weight,
            score,
            select_like(params, score),
        )
        count = optax.safe_increment(state.count)
        state = Gated(score, score_moments, weight, state.noise, count, inner)
        return merge(updates, own), state

    return optax.GradientTransformation(init, update)


def draw(opt_state: Any, params: Any, key: jax.Array) -> tuple[Any, Any]:
    """Draws the gates of a step.

    Returns the optimizer's state with their noise, and the parameters with the weights
    times these gates.
    """
    data, states = jax.random.key_data(key), []

    def with_noise(state: Any) -> Any:
        if not isinstance(state, Gated):
            return state
        states.append(state)
        return state._replace(noise=data)

    opt_state = jax.tree.map(
        with_noise, opt_state, is_leaf=lambda each: isinstance(each, Gated)
    )
    (state,) = states
    gates = _drawn_gates(state.score, data)
    return opt_state, merge(params, jax.tree.map(jnp.multiply, state.weight, gates))


def _drawn_gates(score: Any, key_data: jax.Array) -> Any:
    """The gates of all matrices with the noise of a key."""
    leaves, tree = jax.tree.flatten(score)
    key, gates, (low, high) = jax.random.wrap_key_data(key_data), [], NOISE_RANGE
    for number, leaf in enumerate(leaves):
        own = jax.random.uniform(jax.random.fold_in(key, number), leaf.shape)
        gates.append(gate(leaf, jnp.clip(own, low, high)))
    return jax.tree.unflatten(tree, gates)
