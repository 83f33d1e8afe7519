"""The train step: terms to loss, loss to gradient, gradient to update."""

# B batch, A micro-batches; leaves of a carry are batch-major

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from research import networks
from research.contract.batch import CONSTANTS, Batch
from research.contract.state import State, TermSums
from research.objectives import Objective
from research.objectives.losses.cross_entropy import Term

GRADIENT_NORM = "gradient_norm"
"""The metric that the step adds to the terms of the objective."""


def weighted_loss(
    terms: Mapping[str, Term], weights: Mapping[str, Any], *, xp: Any = jnp
) -> Any:
    """sum(coef * total / weight) over the terms; a term of weight 0 adds 0.

    Args:
      weights: term name -> weight of the whole global batch; `Term.weight` may be that
        of a micro-batch.
      xp: jnp in the step, np on the host.
    """
    return sum(
        term.coef * _mean(term.total, weights[name], xp) for name, term in terms.items()
    )


def _mean(total: Any, weight: Any, xp: Any) -> Any:
    mean = total / xp.where(weight > 0, weight, 1.0)
    return xp.where(weight > 0, mean, 0.0)


def term_sums(terms: Mapping[str, Term]) -> dict[str, tuple[jax.Array, ...]]:
    """The `TermSums` of one batch; sums of several batches are added leaf by leaf."""
    return {
        name: (term.total, term.weight, term.coef * term.weight)
        for name, term in terms.items()
    }


def host_means(sums: TermSums) -> dict[str, float]:
    """The mean of each term and `loss`, their weighted sum, from sums on the host.

    A term that scored nothing has no mean, and without scored terms there is no loss.
    """
    terms: dict[str, Any] = {}
    for name, (total, weight, coef_weight) in sums.items():
        if not weight:
            continue
        coef = _mean(float(coef_weight), float(weight), np)
        terms[name] = Term(float(total), float(weight), coef)  # type: ignore[arg-type]
    weights = {name: term.weight for name, term in terms.items()}
    means = {name: _mean(term.total, term.weight, np) for name, term in terms.items()}
    if num_scored(sums):
        means = {"loss": weighted_loss(terms, weights, xp=np)} | means
    return {name: float(value) for name, value in means.items()}


def num_scored(sums: TermSums) -> float:
    """Number of scored tokens: the largest weight of the terms with coef not 0."""
    weights = [float(weight) for _, weight, coef_weight in sums.values() if coef_weight]
    return max(weights, default=0.0)


def _split(tree: Any, num_parts: int) -> Any:
    """[B, ...] to [A, B / A, ...]: micro-batch m takes rows m::A, none moves device."""

    def split(x: jax.Array) -> jax.Array:
        return jnp.swapaxes(x.reshape(-1, num_parts, *x.shape[1:]), 0, 1)

    return jax.tree.map(split, tree)


def _join(tree: Any) -> Any:
    """The inverse of `_split`."""

    def join(x: jax.Array) -> jax.Array:
        return jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:])

    return jax.tree.map(join, tree)


def gradient(
    objective: Objective,
    network: networks.Module,
    params: Any,
    batch: Batch,
    *,
    key: jax.Array,
    dropout_key: jax.Array | None,
    accumulate: int = 1,
    stop_frozen: Callable[[Any], Any] = lambda params: params,
) -> tuple[Any, dict[str, tuple[jax.Array, ...]], Any]:
    """The gradient of the whole batch's loss, exact for any number of micro-batches.

    Weights do not depend on parameters, so with accumulation a first pass computes only
    the weights (the network is dead code there); the second adds up one gradient.

    Args:
      batch: arrays [B, ...], `carry`, and `constants` if the objective has some.
      key: for what the loss samples; the same for every micro-batch.
      dropout_key: None without dropout.
      accumulate: A, the number of micro-batches.
      stop_frozen: applies `stop_gradient` to the frozen parameters, so that no gradient
        is computed for these.

    Returns:
      the gradient, the `term_sums` of the batch, and the carry.
    """
    rows = {name: value for name, value in batch.items() if name != CONSTANTS}
    constants = {name: value for name, value in batch.items() if name == CONSTANTS}

    def loss_fn(
        params: Any,
        rows: Batch,
        dropout_key: jax.Array | None,
        weights: dict[str, jax.Array] | None = None,
    ) -> tuple[jax.Array, tuple[Any, Any]]:
        terms, carry = networks.apply(
            network,
            stop_frozen(params),
            lambda net: objective.loss(net, rows | constants, key),
            dropout_key,
        )
        if weights is None:
            weights = {name: term.weight for name, term in terms.items()}
        return weighted_loss(terms, weights), (term_sums(terms), carry)

    grad_fn = jax.grad(loss_fn, has_aux=True)
    if accumulate == 1:
        grads, (sums, carry) = grad_fn(params, rows, dropout_key)
        return grads, sums, carry

    parts = _split(rows, accumulate)
    indices = jnp.arange(accumulate)

    def key_of(index: jax.Array) -> jax.Array | None:
        return None if dropout_key is None else jax.random.fold_in(dropout_key, index)

    if objective.caches_vectors:

        def read(params: Any, part: Batch, index: jax.Array) -> Any:
            return networks.apply(
                network,
                stop_frozen(params),
                lambda net: objective.row_vectors(net, part | constants),
                key_of(index),
            )

        return _cached_gradient(
            objective, network, params, rows | constants, parts, read, stop_frozen
        )

    part_sums = jax.lax.map(
        lambda part: loss_fn(params, part, dropout_key)[1][0], parts
    )
    weights = {name: weight.sum() for name, (_, weight, _) in part_sums.items()}

    def add_part(
        grads: Any, part_and_index: tuple[Batch, jax.Array]
    ) -> tuple[Any, Any]:
        part, index = part_and_index
        more, aux = grad_fn(params, part, key_of(index), weights)
        return jax.tree.map(jnp.add, grads, more), aux

    zeros = jax.tree.map(jnp.zeros_like, params)
    grads, (sums, carry) = jax.lax.scan(add_part, zeros, (parts, indices))
    return grads, jax.tree.map(lambda x: x.sum(0), sums), _join(carry)


def _cached_gradient(
    objective: Objective,
    network: networks.Module,
    params: Any,
    batch: Batch,
    parts: Batch,
    read: Callable[[Any, Batch, jax.Array], Any],
    stop_frozen: Callable[[Any], Any],
) -> tuple[Any, dict[str, tuple[jax.Array, ...]], Any]:
    """`gradient` of a loss that compares the vectors of all micro-batches.

    Each micro-batch is read twice: once for its vectors, to get the gradient of the
    whole batch's loss by these, and once to backpropagate it to the parameters
    (GradCache, Gao et al. 2021, section 3.2). Dropout is the same both times.

    Args:
      parts: the rows of `batch` as micro-batches [A, B / A, ...].
      read: (params, part, index) -> the vectors of a micro-batch.
    """
    count = jax.tree.leaves(parts)[0].shape[0]
    indices = jnp.arange(count)
    cached = jax.lax.map(lambda part: read(params, *part), (parts, indices))

    def loss_fn(params: Any, cached: Any) -> tuple[jax.Array, Any]:
        terms = networks.apply(
            network,
            stop_frozen(params),
            lambda net: objective.contrast(net, _join(cached), batch),
            None,
        )
        weights = {name: term.weight for name, term in terms.items()}
        return weighted_loss(terms, weights), term_sums(terms)

    grad_fn = jax.grad(loss_fn, argnums=(0, 1), has_aux=True)
    (grads, of_cached), sums = grad_fn(params, cached)

    def add_part(grads: Any, part: tuple[Batch, jax.Array, Any]) -> tuple[Any, None]:
        rows, index, of_vectors = part
        _, pull = jax.vjp(lambda params: read(params, rows, index), params)
        return jax.tree.map(jnp.add, grads, pull(of_vectors)[0]), None

    grads, _ = jax.lax.scan(add_part, grads, (parts, indices, of_cached))
    return grads, sums, ()


def make_step(
    objective: Objective,
    network: networks.Module,
    optimizer: optax.GradientTransformation,
    *,
    accumulate: int,
    dropout: bool,
    log_every: int,
    stop_frozen: Callable[[Any], Any] = lambda params: params,
    draw: Callable[[Any, Any, jax.Array], tuple[Any, Any]] | None = None,
) -> Callable[[State, Batch, jax.Array], State]:
    """The function of one update; `State.sums` restarts every `log_every` steps.

    Its last argument is the data of the run's key: as a constant it would restrict the
    compiled step to one seed.

    Args:
      draw: a function (opt_state, params, key) -> opt_state, and the parameters at
        which the gradient is computed; None: those of the state.
    """

    def step(state: State, batch: Batch, key_data: jax.Array) -> State:
        key = jax.random.fold_in(jax.random.wrap_key_data(key_data), state.step)
        sample_key, dropout_key = jax.random.split(key)
        opt_state, drawn = state.opt_state, state.params
        if draw is not None:
            opt_state, drawn = draw(opt_state, drawn, jax.random.fold_in(key, 2))
        grads, sums, carry = gradient(
            objective,
            network,
            drawn,
            batch | {"carry": state.carry},
            key=sample_key,
            dropout_key=dropout_key if dropout else None,
            accumulate=accumulate,
            stop_frozen=stop_frozen,
        )
        norm, one = optax.tree.norm(grads), jnp.ones((), jnp.float32)
        sums = sums | {GRADIENT_NORM: (norm, one, 0.0 * one)}
        updates, opt_state = optimizer.update(grads, opt_state, state.params)
        restart = state.step % log_every == 0
        add = lambda old, new: jnp.where(restart, new, old + new)  # noqa: E731
        return State(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
            carry=carry,
            sums=jax.tree.map(add, state.sums, sums),
        )

    return step


def make_evaluate(
    objective: Objective, network: networks.Module, *, seed: int
) -> Callable[..., Any]:
    """The function that evaluates one batch, without dropout.

    It returns the batch's `term_sums` added to those so far, the carry, and the arrays
    [B, ...] that the objective predicts, if any. XLA computes what loss and predictions
    share only once. What a loss samples depends only on the seed and the example.
    """

    def evaluate(
        params: Any, carry: Any, sums: dict[str, Any], batch: Batch
    ) -> tuple[dict[str, Any], Any, dict[str, Any]]:
        def in_network(fn: Callable[[networks.BoundNetwork], Any]) -> Any:
            return networks.apply(network, params, fn, None)

        key = jax.random.key(seed)
        terms, carry = in_network(
            lambda net: objective.loss(net, batch | {"carry": carry}, key)
        )
        sums = jax.tree.map(jnp.add, sums, term_sums(terms))
        return sums, carry, in_network(lambda net: objective.predictions(net, batch))

    return evaluate
