"""lm, mlm and dae reach the optimum of their own loss on a language that is known.

The language is a Markov chain, so what is the best anyone can do on the very texts of
the test is computed exactly. A loss below it is a leak, one above has not been learnt.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from texts import keys, symbols

from research import models, objectives
from research.batch import WORD, Example

NUM_STATES = 6
OF = symbols(size=9 + 12 + NUM_STATES, sentinels=16)
OPTIONS = models.Options(
    layers=2, width=64, heads=4, feedforward=128, position="rotary", unroll=2
)
LENGTH, BATCH = 24, 64
ABOVE, BELOW = 0.03, 0.01
"""Nats a scored token: what training may leave, and what chance may give."""

CHAIN = np.random.default_rng(3).dirichlet(np.full(NUM_STATES, 0.25), NUM_STATES)
CHAIN = 0.97 * CHAIN + 0.03 / NUM_STATES
START = np.linalg.matrix_power(CHAIN, 999)[0]


def texts(num_rows: int, width: int, seed: int) -> Example:
    """Rows of the chain, started from its stationary distribution."""
    rng = np.random.default_rng(seed)
    state = np.empty((num_rows, width), int)
    for place in range(width):
        odds = START[None] if place == 0 else CHAIN[state[:, place - 1]]
        above = rng.random((num_rows, 1)) > np.cumsum(odds, axis=1)
        state[:, place] = np.minimum(above.sum(axis=1), NUM_STATES - 1)
    full = np.full(num_rows, width, np.int32)
    flags = np.full(state.shape, WORD, np.uint8)
    none = full * 0
    return Example(OF.ordinary[state], flags, full, none - 1, full, *[none] * 3)


def states_of(token: np.ndarray) -> np.ndarray:
    """States of the chain; -1 for other tokens."""
    return np.where(token >= OF.ordinary[0], token - OF.ordinary[0], -1)


def best_lm(batch) -> float:
    """-log p of each token given the one before it."""
    state = states_of(batch["target"])
    first, rest = START[state[:, :1]], CHAIN[state[:, :-1], state[:, 1:]]
    return -np.log(np.concatenate([first, rest], axis=1)).mean()


def best_mlm(batch) -> float:
    """-log of the posterior of each hidden token: forward times backward."""
    seen = states_of(batch["token"][:, 1:-1])
    likelihood = np.where(
        seen[..., None] < 0, 1.0, seen[..., None] == np.arange(NUM_STATES)
    )
    forward, backward = np.empty_like(likelihood), np.ones_like(likelihood)
    width = seen.shape[1]
    for place in range(width):
        before = forward[:, place - 1] @ CHAIN if place else START
        forward[:, place] = before * likelihood[:, place]
    for place in range(width - 2, -1, -1):
        after = backward[:, place + 1] * likelihood[:, place + 1]
        backward[:, place] = after @ CHAIN.T
    posterior = forward * backward
    posterior /= posterior.sum(axis=-1, keepdims=True)
    row, slot = np.nonzero(batch["weight"])
    place = batch["scored"][row, slot] - 1
    truth = states_of(batch["target"][row, slot])
    return -np.log(posterior[row, place, truth]).mean()


def best_dae(batch) -> float:
    """-log p of the whole target, over all ways to divide the hidden tokens into spans.

    All divisions are equally likely. A span of n tokens between two others has the
    probability of n + 1 steps of the chain.
    """
    log_p = 0.0
    for encoder, target in zip(batch["encoder_token"], batch["target"], strict=True):
        hidden = states_of(target)
        num_hidden = int((hidden >= 0).sum())
        ways = np.eye(num_hidden + 1)[0]  # by the number of tokens used so far
        spans = np.split(hidden, np.flatnonzero(np.isin(target, OF.sentinels)))[1:]
        places = np.flatnonzero(np.isin(encoder, OF.sentinels))
        for place, span in zip(places, spans, strict=True):
            left, right = states_of(encoder[[place - 1, place + 1]])
            path = [left, *span[span >= 0], right]
            path = path if right >= 0 else path[:-1]  # nothing after the last span
            log_p += np.log(CHAIN[path[:-1], path[1:]]).sum()
            step, more = CHAIN, np.zeros_like(ways)
            for size in range(1, num_hidden + 1):
                step = step @ CHAIN
                more[size:] += ways[:-size] * (step[left, right] if right >= 0 else 1)
            ways = more
        log_p -= np.log(ways[-1])
    return -log_p / batch["weight"].sum()


def train(objective, steps: int, rate: float) -> tuple[Callable, dict]:
    """Scores of a trained network, and a batch it has not seen."""
    network = objective.network(OPTIONS, OF)
    raw = objective.reads(LENGTH).length
    key = jax.random.key(0)

    def make(count, seed):
        example = texts(count, raw, seed)
        return objective.corrupt(example, keys(count, seed), OF, LENGTH)

    def loss(params, batch):
        score = lambda net: objective.loss(net, batch, key)[0]  # noqa: E731
        term = next(iter(models.apply(network, params, score).values()))
        return term.total / term.weight

    @jax.jit
    def init(batch):
        score = lambda net: objective.loss(net, batch, key)  # noqa: E731
        return models.unbox(models.init(network, score, key))

    schedule = optax.schedules.warmup_cosine_decay_schedule(0, rate, 50, steps)
    optimizer = optax.adam(schedule, b2=0.98)

    @jax.jit
    def update(state, batches):
        def one(state, batch):
            params, opt = state
            updates, opt = optimizer.update(jax.grad(loss)(params, batch), opt)
            return (optax.apply_updates(params, updates), opt), None

        return jax.lax.scan(one, state, batches)[0]

    params = init(make(BATCH, 1))
    state = params, optimizer.init(params)
    chunk = 50
    for first in range(0, steps, chunk):
        batch = make(chunk * BATCH, 1 + first)
        batches = {k: v.reshape(chunk, BATCH, *v.shape[1:]) for k, v in batch.items()}
        state = update(state, batches)
    test = make(1024, 0)
    return float(jax.jit(loss)(state[0], jax.tree.map(jnp.asarray, test))), test


@pytest.mark.parametrize(
    ("name", "fields", "best", "steps"),
    [
        ("lm", {}, best_lm, 200),
        ("mlm", {"mask": 1.0, "random": 0.0}, best_mlm, 1000),
        ("dae", {"rate": 0.3, "span": 2.0}, best_dae, 800),
    ],
)
def test_the_optimum_is_reached_and_not_passed(name, fields, best, steps):
    loss, batch = train(objectives.load(name, **fields), steps, 3e-3)
    optimum = best(batch)
    print(name, loss, optimum)
    assert 0.2 < optimum < np.log(NUM_STATES)
    assert -BELOW < loss - optimum < ABOVE
