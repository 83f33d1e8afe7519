"""The optimizer section: schedules by their corners, decay by what it spares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import base
from research.errors import UserError
from research.optimizer import (
    OPTIMIZERS,
    SCHEDULES,
    decays_weight,
    make_optimizer,
    schedule,
)

PARAMS = {"dense": {"kernel": jnp.ones((4, 4)), "bias": jnp.ones((2, 4))}}


def section(**changes):
    config = base.get_config().optimizer
    config.update(changes)
    return config


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_peak_is_reached_when_the_warm_up_ends(name):
    rate = schedule(section(schedule=name, warmup_steps=10, learning_rate=0.5), 100)
    rates = np.array([rate(step) for step in range(100)])
    assert rates[0] == pytest.approx(0.05)  # the first step moves already
    assert rates[9] == pytest.approx(0.5)
    assert rates[10] == pytest.approx(0.5)
    assert rates.argmax() in (9, 10)
    assert (np.diff(rates[:10]) > 0).all() and (np.diff(rates[10:]) <= 0).all()


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_the_decay_ends_with_the_run(name):
    config = section(schedule=name, warmup_steps=0, final_rate=0.1, learning_rate=1.0)
    rate = schedule(config, 50)
    assert rate(50) == pytest.approx(0.1) and rate(25) == pytest.approx(0.55)


def test_rsqrt_is_the_peak_times_the_root_of_warm_up_over_step():
    rate = schedule(section(schedule="rsqrt", warmup_steps=10, learning_rate=1.0), 99)
    assert rate(40) == pytest.approx((10 / 40) ** 0.5)


def test_decay_spares_biases_and_norms_whatever_their_rank():
    assert decays_weight(PARAMS) == {"dense": {"kernel": True, "bias": False}}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_descends(name):
    optimizer = make_optimizer(section(name=name, learning_rate=0.01), 500)

    def loss(params):
        return sum((x**2).sum() for x in jax.tree.leaves(params))

    params, state = PARAMS, optimizer.init(PARAMS)
    for _ in range(3):
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        params = jax.tree.map(jnp.add, params, updates)
    assert loss(params) < loss(PARAMS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "adamm"}, "optimizer.name.*adam"),
        ({"schedule": "cosin"}, "optimizer.schedule.*cosine"),
        ({"warmup_steps": 100}, "optimizer.warmup_steps=100"),
    ],
)
def test_mistakes_are_named(changes, words):
    with pytest.raises(UserError, match=words):
        make_optimizer(section(**({"warmup_steps": 10} | changes)), 100)
