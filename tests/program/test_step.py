"""The step divides once: the gradient does not depend on how a batch is split."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from research.contract.state import State
from research.objectives.losses.cross_entropy import Term
from research.program.step import (
    GRADIENT_NORM,
    gradient,
    host_means,
    make_evaluate,
    make_step,
    num_scored,
)

ROWS = 8
KEY = jax.random.key(0)


class ScaleNetwork(nn.Module):
    """x times one parameter, with dropout of half the outputs if there is a key."""

    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.initializers.ones, ())
        deterministic = not self.has_rng("dropout")
        return nn.Dropout(0.5, deterministic=deterministic)(scale * x)


class TwoTermObjective:
    """Two terms with weights of their own; one samples noise keyed by example."""

    caches_vectors = False

    @staticmethod
    def predictions(net, batch):
        return {}

    @staticmethod
    def loss(net, batch, key):
        prediction = net(batch["x"])
        keys = jax.vmap(lambda e: jax.random.fold_in(key, e))(batch["example"])
        noise = jax.vmap(jax.random.uniform)(keys)
        common, rare = batch["weight"], batch["rare_weight"]
        error = jnp.square(prediction - batch["y"])
        return {
            "common": Term(jnp.sum(common * error), jnp.sum(common)),
            "rare": Term(jnp.sum(rare * noise * prediction), jnp.sum(rare), 0.5),
        }, ()


def make_batch(seed=0, rare=1.0):
    """Rows whose weights differ by up to a factor of 1000."""
    rng = np.random.default_rng(seed)
    batch = {name: rng.normal(size=ROWS) for name in ("x", "y")}
    batch["weight"] = 10.0 ** rng.uniform(-1, 2, ROWS)
    batch["rare_weight"] = rare * (np.arange(ROWS) == 5)
    batch = {name: array.astype(np.float32) for name, array in batch.items()}
    return batch | {"example": np.arange(ROWS, dtype=np.int32)}


@functools.partial(jax.jit, static_argnames="accumulate")
def jit_gradient(batch, dropout_key, accumulate):
    params = {"scale": jnp.float32(0.3)}
    keys = {"key": KEY, "dropout_key": dropout_key}
    return gradient(
        TwoTermObjective(), ScaleNetwork(), params, batch, accumulate=accumulate, **keys
    )


def grad_and_sums(batch, accumulate=1, dropout_key=None):
    """The gradient, and the sums of the terms."""
    grads, sums, _ = jax.device_get(jit_gradient(batch, dropout_key, accumulate))
    return grads["scale"], sums


@pytest.mark.parametrize("accumulate", [2, 4, 8])
@pytest.mark.parametrize("rare", [1.0, 0.0])
def test_micro_batches_of_any_weights_give_the_whole_gradient(accumulate, rare):
    # A term may be scored in one micro-batch alone, or in none.
    expected, sums = grad_and_sums(make_batch(rare=rare))
    accumulated, same = grad_and_sums(make_batch(rare=rare), accumulate)
    np.testing.assert_allclose(accumulated, expected, rtol=1e-5)
    for name in sums:
        np.testing.assert_allclose(same[name], sums[name], rtol=1e-5)


def test_the_gradient_is_that_of_means_over_the_whole_batch():
    batch = make_batch()
    grad, sums = grad_and_sums(batch)
    scale, x, y = 0.3, batch["x"], batch["y"]
    weight = batch["weight"] / batch["weight"].sum()
    expected = (weight * 2 * (scale * x - y) * x).sum()
    noise = sums["rare"][0] / (scale * x[5])
    np.testing.assert_allclose(grad, expected + 0.5 * noise * x[5], rtol=1e-5)


def test_a_term_of_weight_0_has_no_gradient():
    batch = make_batch(rare=0.0)
    weight = batch["weight"] / batch["weight"].sum()
    expected = (weight * 2 * (0.3 * batch["x"] - batch["y"]) * batch["x"]).sum()
    np.testing.assert_allclose(grad_and_sums(batch)[0], expected, rtol=1e-5)
    grad, sums = grad_and_sums(batch | {"weight": 0 * batch["weight"]})
    assert grad == 0 and host_means(sums) == {}


def test_each_micro_batch_has_its_own_dropout():
    # Of two equal rows exactly one is dropped for half of the keys.
    row = {name: array[5:6].repeat(2) for name, array in make_batch().items()}
    row |= {"y": 0 * row["y"], "example": np.arange(2, dtype=np.int32)}
    totals = [
        grad_and_sums(row, 2, jax.random.key(seed))[1]["common"][0]
        for seed in range(24)
    ]
    fraction = np.array(totals) / max(totals)
    assert np.isclose(fraction, 0.5).any() and np.isclose(fraction, 1.0).any()


def run_steps(count, seed=0, log_every=3, scale=1.0, draw=None, before=0.0):
    """The state after each of some steps of learning rate 0, where sums had a value."""
    optimizer = optax.sgd(0.0)
    params = {"scale": jnp.float32(scale)}
    sums = (jnp.float32(before),) * 3
    state = State(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        carry=(),
        sums=dict.fromkeys(("common", "rare", GRADIENT_NORM), sums),
    )
    step = make_step(
        TwoTermObjective,
        ScaleNetwork(),
        optimizer,
        accumulate=1,
        dropout=False,
        log_every=log_every,
        draw=draw,
    )
    states, step = [], jax.jit(step)
    key_data = jax.random.key_data(jax.random.key(seed))
    for _ in range(count):
        state = step(state, make_batch(), key_data)
        states.append(jax.device_get(state))
    return states


def test_each_step_has_its_own_samples_which_a_seed_repeats():
    one, again, other = (
        [float(state.sums["rare"][0]) for state in run_steps(4, seed, log_every=1)]
        for seed in (0, 0, 1)
    )
    assert len(set(one)) == 4 and one == again
    assert not set(one) & set(other)


def test_sums_are_of_the_steps_since_the_last_logged_one():
    each = [state.sums["common"][0] for state in run_steps(5, log_every=1)]
    window = [state.sums["common"][0] for state in run_steps(5, log_every=3)]
    expected = [*np.cumsum(each[:3]), *np.cumsum(each[3:])]
    np.testing.assert_allclose(window, expected, rtol=1e-6)


def test_an_infinite_sum_ends_with_its_window():
    """Such as that of the norm of a gradient that is clipped."""
    (after,), (alone,) = run_steps(1, before=np.inf), run_steps(1)
    assert after.sums == alone.sums and np.isfinite(alone.sums[GRADIENT_NORM]).all()


def test_gradients_are_of_the_drawn_parameters_and_updates_of_the_states():
    triple = lambda state, params, key: (state, {"scale": 3 * params["scale"]})  # noqa: E731
    (drawn,), (expected,) = run_steps(1, draw=triple), run_steps(1, scale=3.0)
    jax.tree.map(np.testing.assert_array_equal, drawn.sums, expected.sums)
    assert drawn.params["scale"] == 1 and drawn.sums[GRADIENT_NORM][0] > 0


@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_evaluation_does_not_depend_on_the_batch_size(size):
    # A mean of the batches' means would.
    batch, params = make_batch(), {"scale": jnp.float32(0.3)}
    evaluate = jax.jit(make_evaluate(TwoTermObjective, ScaleNetwork(), seed=0))

    def mean(size):
        sums = {name: (jnp.zeros(()),) * 3 for name in ("common", "rare")}
        for first in range(0, ROWS, size):
            part = {name: x[first : first + size] for name, x in batch.items()}
            sums, *_ = evaluate(params, (), sums, part)
        return host_means(jax.device_get(sums))

    whole, parts = mean(ROWS), mean(size)
    np.testing.assert_allclose(list(parts.values()), list(whole.values()), rtol=1e-5)


def test_the_loss_is_the_weighted_sum_of_the_means():
    sums = {"mlm": (6.0, 2.0, 2.0), "disc": (1.0, 4.0, 200.0), "acc": (1.0, 2.0, 0.0)}
    assert host_means(sums) == pytest.approx(
        {"loss": 3.0 + 50 * 0.25, "mlm": 3.0, "disc": 0.25, "acc": 0.5}
    )


def test_a_term_of_weight_0_has_no_mean():
    """Nor has the loss without another term; one whose coef is 0 is none of it."""
    none, scored = (0.0, 0.0, 0.0), (3.0, 2.0, 2.0)
    assert host_means({"lm": none}) == {}
    assert host_means({"lm": none, "accuracy": (1.0, 2.0, 0.0)}) == {"accuracy": 0.5}
    assert host_means({"lm": none, "nsp": scored}) == {"loss": 1.5, "nsp": 1.5}


def test_scored_tokens_are_those_of_terms_that_are_trained_on():
    assert num_scored({"mlm": (1.0, 5.0, 5.0), "accuracy": (1.0, 9.0, 0.0)}) == 5.0
