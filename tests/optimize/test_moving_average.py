"""The moving average of the parameters: its weights, and its place in a state."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from research.contract.state import State
from research.optimize.moving_average import (
    exchange_average,
    with_average_of_steps,
    with_moving_average,
)
from research.optimize.optimizer import make_optimizer
from research.optimize.options import OptimizerOptions
from tests.testing.optimizer_section import section


def states(optimizer, num_steps):
    """The state after each step from parameters 1, 2 with the gradients 1, 2, 3, ..."""
    params = {"dense": {"kernel": jnp.array([1.0, 2.0])}}
    state = State(jnp.int32(0), params, optimizer.init(params), (), {})
    for step in range(1, num_steps + 1):
        grads = jax.tree.map(lambda leaf, n=step: jnp.full_like(leaf, n), params)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        state = state._replace(params=params, opt_state=opt_state)
        yield state


def kernel(state):
    return np.float64(state.params["dense"]["kernel"])


@pytest.mark.parametrize("decay", [0.5, 0.9999])
def test_weights_fall_with_age_and_sum_to_1(decay):
    """decay^(t - i) / their sum; the parameters before step 1 are not in it."""
    history = list(states(with_moving_average(optax.sgd(0.1), decay), 5))
    params = np.stack([kernel(state) for state in history])
    for count, state in enumerate(history, 1):
        weight = decay ** np.arange(count)[::-1]
        expected = weight @ params[:count] / weight.sum()
        found = kernel(exchange_average(state))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_exchanged_twice_is_unchanged_and_training_does_not_see_it():
    keys = dict(name="sgd", warmup_steps=0, frozen="", clip_norm=0.0)
    plain, averaged = (
        list(states(make_optimizer(section(ema_decay=decay, **keys), 9), 3))[-1]
        for decay in (0.0, 0.9)
    )
    assert exchange_average(plain) is plain
    np.testing.assert_array_equal(kernel(averaged), kernel(plain))
    exchanged = exchange_average(averaged)
    assert (kernel(exchanged) != kernel(averaged)).all()
    jax.tree.map(np.testing.assert_array_equal, exchange_average(exchanged), averaged)


def test_an_average_of_steps_is_that_of_pytorch():
    """Iterates 1, 2, 4, 8: the first one is left out where a second one follows; before
    the start the average is the parameters."""
    updates = [1.0, 1.0, 2.0, 4.0]
    for start, expected in ((0, [1, 2, 3, 14 / 3]), (1, [1, 2, 4, 6])):
        optimizer, params = (
            with_average_of_steps(optax.identity(), start),
            jnp.zeros(()),
        )
        state, found = optimizer.init(params), []
        for update in map(jnp.asarray, updates):
            _, state = optimizer.update(update, state, params)
            params += update
            found.append(float(state[-1].average))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_two_averages_are_refused():
    with pytest.raises(ValueError, match=r"two averages; set ema_decay to 0"):
        OptimizerOptions(ema_decay=0.9, average_from=0.5)


@pytest.mark.parametrize("average", [{"ema_decay": 0.9}, {"average_from": 0.5}])
def test_an_average_of_what_is_pruned_is_refused(average):
    """It would have weights from before they were pruned."""
    with pytest.raises(ValueError, match=r"averages .* have none; set ema_decay to 0"):
        OptimizerOptions(prune="magnitude", **average)


def test_pruning_layers_that_do_not_learn_yet_is_refused():
    with pytest.raises(ValueError, match=r"set one of them to its default, none or 0"):
        OptimizerOptions(prune="movement", unfreeze_every=5)
