"""LayerDrop: a step computes the network of some of its layers, and evaluation all."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks.transformer import transformer
from research.program import flops
from tests.testing.compiled_apply import apply
from tests.testing.trees import make_params

SHAPE = 2, 6
GROUP = {
    "token": jnp.arange(12).reshape(SHAPE),
    "position": jnp.tile(jnp.arange(6), (2, 1)),
    "segment": jnp.ones(SHAPE, jnp.int32),
    **dict.fromkeys(("token_type", "rank", "reach"), jnp.zeros(SHAPE, jnp.int32)),
}
SCORED = jnp.array([[1, 4], [0, 5]])
OPTIONS = {"width": 16, "heads": 2, "feedforward": 32}


def build(num_layers, rate, keys=None, **needs):
    options = transformer.Network(
        layers=num_layers, layer_dropout=rate, **OPTIONS | (keys or {})
    )
    return options.module(networks.Needs(pattern="full", **needs), 40)


def states(network, params, key=None):
    return apply(network, params, lambda net: net.states(GROUP, SCORED), key)


def test_each_draw_is_the_network_of_some_layers():
    """Of 2 layers all 4 choices are drawn, and a skipped layer takes no gradient."""
    network = build(2, 0.5)
    params = make_params(network, lambda net: net.states(GROUP))
    smaller = {}
    for chosen in itertools.chain(*(itertools.combinations((0, 1), n) for n in (1, 2))):
        at, stack = np.array(chosen), params["stack"]
        blocks = jax.tree.map(lambda leaf, at=at: leaf[at], stack["blocks"])
        few = params | {"stack": stack | {"blocks": blocks}}
        smaller[chosen] = states(build(len(chosen), 0.0), few)
    loss = jax.jit(
        jax.value_and_grad(
            lambda params, key: (lambda x: (jnp.sum(x * x * x), x))(
                states(network, params, key)
            ),
            has_aux=True,
        )
    )
    found = set()
    for seed in range(16):
        (_, drawn), grads = loss(params, jax.random.key(seed))
        kernel = grads["stack"]["blocks"]["feedforward"]["in"]["kernel"]
        kept = tuple(n for n in (0, 1) if np.abs(kernel[n]).max() > 0)
        found.add(kept)
        if kept:
            np.testing.assert_allclose(drawn, smaller[kept], atol=1e-6)
    assert found == {(), (0,), (1,), (0, 1)}
    np.testing.assert_allclose(states(network, params), smaller[0, 1], atol=1e-6)


@pytest.mark.parametrize("keys", [{}, {"scan_unroll": 2}, {"remat": "full"}])
def test_skipped_layers_have_no_flops(keys):
    """A step's and its gradient's are in proportion to the layers that run."""

    def cost(rate):
        network = build(2, rate, keys)
        params = jax.eval_shape(
            lambda: networks.unbox(
                networks.init(network, lambda net: net.states(GROUP), jax.random.key(0))
            )
        )
        loss = lambda params, key: jnp.sum(states(network, params, key) ** 2)  # noqa: E731
        return flops.flops_by_kind(jax.grad(loss), params, jax.random.key(1))

    found = cost(0.75)
    whole = flops.product_flops(cost(0.0))
    assert flops.product_flops(found) == pytest.approx(whole / 4)
    assert not found[flops.SKIPPABLE]


def test_an_objective_that_reads_each_layer_refuses():
    with pytest.raises(UserError, match=r"model\.layer_dropout skips layers"):
        build(2, 0.5, layers=True)
