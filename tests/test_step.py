"""The step divides once: whatever a batch is cut into, it teaches the same."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from research.objectives.losses.cross_entropy import Term
from research.run import metric_writer
from research.run.state import GRADIENT_NORM, State
from research.step import gradient, make_evaluate, make_step

ROWS = 8
KEY = jax.random.key(0)


class Line(nn.Module):
    """A slope, and half of its answers dropped where there is a key for it."""

    @nn.compact
    def __call__(self, x):
        slope = self.param("slope", nn.initializers.ones, ())
        still = not self.has_rng("dropout")
        return nn.Dropout(0.5, deterministic=still)(slope * x)


class Toy:
    """Two terms with weights of their own, one of which samples by example."""

    @staticmethod
    def loss(net, batch, key):
        guess = net(batch["x"])
        keys = jax.vmap(lambda e: jax.random.fold_in(key, e))(batch["example"])
        noise = jax.vmap(jax.random.uniform)(keys)
        often, rare = batch["weight"], batch["rare_weight"]
        off = jnp.square(guess - batch["y"])
        return {
            "often": Term(jnp.sum(often * off), jnp.sum(often)),
            "rare": Term(jnp.sum(rare * noise * guess), jnp.sum(rare), 0.5),
        }, ()


def made(seed=0, rare=1.0):
    """Rows whose weights differ a thousand times."""
    rng = np.random.default_rng(seed)
    batch = {name: rng.normal(size=ROWS) for name in ("x", "y")}
    batch["weight"] = 10.0 ** rng.uniform(-1, 2, ROWS)
    batch["rare_weight"] = rare * (np.arange(ROWS) == 5)
    batch = {name: array.astype(np.float32) for name, array in batch.items()}
    return batch | {"example": np.arange(ROWS, dtype=np.int32)}


@functools.partial(jax.jit, static_argnames="accumulate")
def run(batch, dropout_key, accumulate):
    params = {"slope": jnp.float32(0.3)}
    how = {"key": KEY, "dropout_key": dropout_key, "accumulate": accumulate}
    return gradient(Toy, Line(), params, batch, **how)


def taught(batch, accumulate=1, dropout_key=None):
    """The gradient, and the sums of the terms."""
    grads, sums, _ = jax.device_get(run(batch, dropout_key, accumulate))
    return grads["slope"], sums


@pytest.mark.parametrize("accumulate", [2, 4, 8])
@pytest.mark.parametrize("rare", [1.0, 0.0])
def test_micro_batches_of_any_weights_teach_what_the_whole_does(accumulate, rare):
    # A term may be in one of them alone, or in none.
    whole, sums = taught(made(rare=rare))
    parts, same = taught(made(rare=rare), accumulate)
    np.testing.assert_allclose(parts, whole, rtol=1e-5)
    for name in sums:
        np.testing.assert_allclose(same[name], sums[name], rtol=1e-5)


def test_the_gradient_is_that_of_means_over_the_whole_batch():
    batch = made()
    whole, sums = taught(batch)
    slope, x, y = 0.3, batch["x"], batch["y"]
    often = batch["weight"] / batch["weight"].sum()
    expected = (often * 2 * (slope * x - y) * x).sum()
    noise = sums["rare"][0] / (slope * x[5])
    np.testing.assert_allclose(whole, expected + 0.5 * noise * x[5], rtol=1e-5)


def test_a_term_that_nothing_weighs_teaches_nothing():
    batch = made(rare=0.0)
    often = batch["weight"] / batch["weight"].sum()
    expected = (often * 2 * (0.3 * batch["x"] - batch["y"]) * batch["x"]).sum()
    np.testing.assert_allclose(taught(batch)[0], expected, rtol=1e-5)
    nothing, sums = taught(batch | {"weight": 0 * batch["weight"]})
    assert nothing == 0 and metric_writer.means(sums)["loss"] == 0


def test_micro_batches_drop_for_themselves():
    # Of two equal rows one alone is dropped, for half of the keys.
    row = {name: array[5:6].repeat(2) for name, array in made().items()}
    row |= {"y": 0 * row["y"], "example": np.arange(2, dtype=np.int32)}
    left = [taught(row, 2, jax.random.key(seed))[1]["often"][0] for seed in range(24)]
    share = np.array(left) / max(left)
    assert np.isclose(share, 0.5).any() and np.isclose(share, 1.0).any()


def steps(count, seed=0, log_every=3):
    """The state after each of some steps that move nothing."""
    optimizer = optax.sgd(0.0)
    params = {"slope": jnp.float32(1.0)}
    nothing = (jnp.zeros(()),) * 3
    names = ("often", "rare", GRADIENT_NORM)
    state = State(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        carry=(),
        sums=dict.fromkeys(names, nothing),
    )
    step = make_step(
        Toy,
        Line(),
        optimizer,
        seed=seed,
        accumulate=1,
        dropout=False,
        log_every=log_every,
    )
    found, step = [], jax.jit(step)
    for _ in range(count):
        state = step(state, made())
        found.append(jax.device_get(state))
    return found


def test_each_step_samples_anew_and_a_seed_samples_the_same():
    one, again, other = (
        [float(state.sums["rare"][0]) for state in steps(4, seed, log_every=1)]
        for seed in (0, 0, 1)
    )
    assert len(set(one)) == 4 and one == again
    assert not set(one) & set(other)


def test_sums_are_of_the_steps_since_the_last_line():
    alone = [state.sums["often"][0] for state in steps(5, log_every=1)]
    window = [state.sums["often"][0] for state in steps(5, log_every=3)]
    expected = [*np.cumsum(alone[:3]), *np.cumsum(alone[3:])]
    np.testing.assert_allclose(window, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_evaluation_does_not_depend_on_its_batches(size):
    # Nor does a mean of their means come near it.
    batch, params = made(), {"slope": jnp.float32(0.3)}
    evaluate = jax.jit(make_evaluate(Toy, Line(), seed=0))

    def mean(size):
        sums = {name: (jnp.zeros(()),) * 3 for name in ("often", "rare")}
        for first in range(0, ROWS, size):
            part = {name: x[first : first + size] for name, x in batch.items()}
            sums, _ = evaluate(params, (), sums, part)
        return metric_writer.means(jax.device_get(sums))

    whole, parts = mean(ROWS), mean(size)
    np.testing.assert_allclose(list(parts.values()), list(whole.values()), rtol=1e-5)
