"""Objectives reach the optimum of their own loss on a language that is known.

The language is a Markov chain, so what is the best anyone can do on the very texts of
the test is computed exactly. A loss below it is a leak, one above has not been learnt.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from texts import keys, symbols

from research import models, objectives
from research.batch import WORD, Example, take, visible

NUM_STATES = 6
OF = symbols(size=9 + 12 + NUM_STATES, sentinels=16)
OPTIONS = models.Options(
    layers=2, width=64, heads=4, feedforward=128, position="rotary", unroll=2
)
LENGTH, BATCH = 24, 64
MASKS = {"mask": 1.0, "random": 0.0}
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


class Evidence(NamedTuple):
    """What is known where: [B, N] places of the text, [B, N] states, -1: none."""

    place: np.ndarray
    state: np.ndarray


def best(batch, known: Evidence, sees: np.ndarray, where: np.ndarray) -> float:
    """-log of the posterior of each target, given the states that its place sees.

    Of a chain only the nearest known states on either side matter: steps from the left
    one, times steps to the right one.

    Args:
      sees: [B, K, N] bool, which of the evidence a target's place sees.
      where: [B, K], the places of the targets in the text.
    """
    steps = [np.linalg.matrix_power(CHAIN, n) for n in range(LENGTH + 1)]
    target, log_p = states_of(batch["target"]), 0.0
    for row, slot in zip(*np.nonzero(batch["weight"]), strict=True):
        truth, place = target[row, slot], where[row, slot]
        held = sees[row, slot] & (known.state[row] >= 0)
        at, state = known.place[row][held], known.state[row][held]
        assert place not in at
        odds = START.copy()
        if (left := at < place).any():
            nearest = np.argmax(np.where(left, at, -1))
            odds = steps[place - at[nearest]][state[nearest]].copy()
        if (right := at > place).any():
            nearest = np.argmin(np.where(right, at, LENGTH))
            odds *= steps[at[nearest] - place][:, state[nearest]]
        log_p += np.log(odds[truth] / odds.sum())
    return -log_p / batch["weight"].sum()


def best_of_one(batch, *, read: int = 0, turned: bool = False) -> float:
    """Of a network that reads one group; a token stands `read` places behind its own.

    turned: the text is read from its end.
    """
    group = take(batch)
    at = batch.get("scored", np.arange(batch["weight"].shape[1])[None])
    at = np.broadcast_to(at, batch["weight"].shape)
    sees = np.take_along_axis(visible(group), at[..., None], axis=1)
    where = np.take_along_axis(group["position"], at, axis=1)
    place = group["position"] - read
    if turned:
        place, where = LENGTH - 1 - place, LENGTH - 1 - where
    return best(batch, Evidence(place, states_of(group["token"])), sees, where)


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


CASES = {
    "lm": ("lm", {}, partial(best_of_one, read=1), 200),
    "backward": (
        "lm",
        {"direction": "backward"},
        partial(best_of_one, read=1, turned=True),
        200,
    ),
    "prefix": ("lm", {"prefix": "random"}, partial(best_of_one, read=1), 400),
    "mlm": ("mlm", MASKS, best_of_one, 1000),
    "plm": ("plm", {"span": 2}, best_of_one, 1000),
    "dae": ("dae", {"rate": 0.3, "span": 2.0}, best_dae, 800),
}
"""Name -> objective, fields, its optimum, steps of training."""


@pytest.mark.parametrize("case", CASES)
def test_the_optimum_is_reached_and_not_passed(case):
    name, fields, best, steps = CASES[case]
    loss, batch = train(objectives.load(name, **fields), steps, 3e-3)
    optimum = best(batch)
    print(case, loss, optimum)
    assert 0.05 < optimum < np.log(NUM_STATES)
    assert -BELOW < loss - optimum < ABOVE
