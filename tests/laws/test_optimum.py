"""Each objective reaches the optimum of its own loss on texts of a known Markov chain.

The optimum on the test's own batch is computed exactly. A loss below it is a leak, a
loss above it means that something was not learnt.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from research import networks, objectives
from research.contract.batch import VocabInfo
from tests.testing import fast_key, markov_chain
from tests.testing.example_batches import keys
from tests.testing.known_chain import log_likelihood
from tests.testing.markov_chain import LENGTH, NUM_STATES, VOCAB
from tests.testing.model_options import model_options

OPTIMISED = True

OPTIONS = model_options(
    layers=2, width=64, heads=4, feedforward=128, position="rotary", scan_unroll=2
)
TOKEN_TYPES = replace(OPTIONS, token_types=6)
LSTM = model_options(network="lstm", layers=1, width=64, table_range=1.0)
RATE = 3e-3
BATCH = 64
ABOVE, BELOW = 0.03, 0.01
"""Nats a scored token: tolerance for incomplete training, and for chance."""


class Case(NamedTuple):
    """An objective, how it is trained, and its optimal loss."""

    objective: str
    fields: dict[str, Any]
    optimal_loss: Callable
    steps: int
    options: networks.Network = OPTIONS
    texts: Callable = markov_chain.chain_texts
    vocab: VocabInfo = VOCAB
    length: int = LENGTH


def train(case: Case) -> tuple[float, dict]:
    """The first term of a trained network's loss on a new batch, and that batch."""
    objective = objectives.make_objective(case.objective, **case.fields)
    network = networks.build(case.options, objective.needs(case.vocab), case.vocab)
    raw = objective.text_spec(case.length).length
    key = jax.random.key(0)

    def make(count, seed):
        example = case.texts(count, raw, seed)
        batch = objective.corrupt(example, keys(count, seed), case.vocab, case.length)
        return batch | {"example": np.arange(count, dtype=np.int32)}

    def loss(params, batch):
        score = lambda net: objective.loss(net, batch, key)[0]  # noqa: E731
        term = next(iter(networks.apply(network, params, score).values()))
        return term.total / term.weight

    @jax.jit
    def init(batch):
        score = lambda net: objective.loss(net, batch, key)  # noqa: E731
        return networks.unbox(networks.init(network, score, fast_key.key(0)))

    schedule = optax.schedules.warmup_cosine_decay_schedule(0, RATE, 50, case.steps)
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
    for first in range(0, case.steps, chunk):
        batch = make(chunk * BATCH, 1 + first)
        batches = {k: v.reshape(chunk, BATCH, *v.shape[1:]) for k, v in batch.items()}
        state = update(state, batches)
    test = make(1024, 0)
    return float(jax.jit(loss)(state[0], jax.tree.map(jnp.asarray, test))), test


INFILL = {"permute_rate": 0.0, "infill_rate": 0.5, "unit": "token"}
ONE = {"block_size": 1, "min_t": 1.0}
MASKS = {"mask_fraction": 1.0, "random_fraction": 0.0}
CASES = {
    "lm": Case("lm", {}, partial(markov_chain.optimal_loss, shift=1), 200),
    "lstm": Case("lm", {}, partial(markov_chain.optimal_loss, shift=1), 200, LSTM),
    "backward": Case(
        "lm",
        {"direction": "backward"},
        partial(markov_chain.optimal_loss, shift=1, backward=True),
        200,
    ),
    "prefix": Case(
        "lm", {"prefix": "random"}, partial(markov_chain.optimal_loss, shift=1), 400
    ),
    "mlm": Case("mlm", MASKS, markov_chain.optimal_loss, 1000),
    "diffusion": Case(
        "masked_diffusion", {"count": "exact"}, markov_chain.optimal_loss, 1000
    ),
    "blocks": Case(
        "masked_diffusion", {"block_size": 4}, markov_chain.optimal_loss, 1000
    ),
    "blocks of one": Case(
        "masked_diffusion",
        {"block_size": 1, "min_t": 1.0},
        markov_chain.optimal_loss,
        200,
    ),
    "electra": Case(
        "electra",
        {"mask_fraction": 1.0, "generator_size": 1.0, "tie": "all"},
        markov_chain.optimal_loss,
        1000,
    ),
    "plm": Case("plm", {"max_span": 2}, markov_chain.optimal_loss, 1000),
    "unilm": Case("unilm", MASKS, markov_chain.optimal_unilm, 1000, TOKEN_TYPES),
    "tlm": Case(
        "tlm",
        MASKS | {"rate": 0.5},
        markov_chain.optimal_tlm,
        1500,
        TOKEN_TYPES,
        markov_chain.translated_texts,
        markov_chain.BILINGUAL_VOCAB,
    ),
    "dae": Case("dae", {"rate": 0.3, "mean_span": 2.0}, markov_chain.optimal_dae, 1000),
    "mass": Case(
        "mass",
        MASKS | {"rate": 0.25},  # of a long span it learns only the left context
        markov_chain.optimal_mass,
        2500,
        replace(OPTIONS, position="learned"),
        length=8,
    ),
    "bart": Case(
        "bart",
        INFILL,
        partial(markov_chain.optimal_bart, fields=INFILL),
        1500,
        vocab=markov_chain.BILINGUAL_VOCAB,
        length=10,
    ),
}


SHORT = ("lm",)
"""Cases that `make test` runs; `make long` the others, most for a minute."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n not in SHORT)) for n in CASES],
)
def test_the_loss_reaches_the_optimum_and_is_not_below_it(name):
    case = CASES[name]
    loss, batch = train(case)
    optimum = case.optimal_loss(batch)
    print(name, loss, optimum)
    assert 0.05 < optimum < np.log(NUM_STATES)
    assert -BELOW < loss - optimum < ABOVE


@pytest.mark.parametrize("name", ["diffusion", "blocks", "blocks of one"])
def test_the_optimum_of_a_bound_is_the_entropy_of_the_chain(name):
    """Of one who knows the chain; of blocks of one the loss of each text is its -log p,
    and so is that of lm."""
    case = CASES[name]
    objective = objectives.make_objective(case.objective, **case.fields)
    example = case.texts(2000, case.length - 1, 0)
    batch = objective.corrupt(example, keys(2000, 0), case.vocab, case.length)
    state = markov_chain.states_of(example.token)
    entropy = -sum(map(log_likelihood, state)) / state.size
    found = case.optimal_loss(batch)
    assert found == pytest.approx(
        entropy, rel=1e-6 if name == "blocks of one" else 0.02
    )
