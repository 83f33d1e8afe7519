"""optax's rules by their names take optax's own steps."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from research.contract.errors import UserError
from research.optimize.rules.library import RULES, Optimizer


def steps(rule):
    """Parameters after four steps on gradients that depend on them."""
    params = {"kernel": jnp.full((3, 2), 0.5), "bias": jnp.full(2, -0.2)}
    state = rule.init(params)
    for number in range(4):
        gradient = jax.tree.map(lambda x, n=number: jnp.sin(3 * x + n), params)
        update, state = rule.update(gradient, state, params)
        params = optax.apply_updates(params, update)
    return params


@pytest.mark.parametrize("name", RULES)
def test_steps_are_those_of_optax(name):
    chosen = Optimizer(rule=name, weight_decay=0.0, arguments="b1=0.8").transforms()
    ours = steps(optax.chain(*chosen, optax.scale(-0.01)))
    known = inspect.signature(RULES[name]).parameters
    decay = {"weight_decay": 0.0} if "weight_decay" in known else {}
    theirs = steps(RULES[name](learning_rate=0.01, b1=0.8, **decay))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize("arguments", ["b7=0.9", "b1", "b1=much", "weight_decay=0.1"])
def test_wrong_arguments_name_those_of_the_rule(arguments):
    rule = Optimizer(rule="lion", arguments=arguments)
    words = rf"of b1, b2; got '{arguments}'"
    with pytest.raises(UserError, match=words):
        rule.transforms()
