"""Windows: a layer that has one attends to a few positions to each side."""

# L length

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks.transformer.encoder_decoder import EncoderDecoder
from research.networks.transformer.one_stack import Transformer
from tests.testing.compiled_apply import apply

LENGTH = 14
SEGMENT = np.array([[1] * 8 + [2] * 4 + [0] * 2], np.int32)


def mask_by_definition(window: int, *, causal: bool) -> np.ndarray:
    """[L, L] bool; window 0: none."""
    distance = np.arange(LENGTH) - np.arange(LENGTH)[:, None]
    mask = (SEGMENT == SEGMENT.T) & (SEGMENT > 0)
    mask &= (np.abs(distance) <= window) | (not window)
    return mask & (distance <= 0) if causal else mask


def attention_of_one_layer(params, layer):
    """The parameters, with which attention of the other layers adds nothing."""

    def mute(leaf):
        at_layer = np.arange(len(leaf)) == layer
        return leaf * at_layer.reshape(-1, *[1] * (leaf.ndim - 1))

    blocks = params["stack"]["blocks"]
    out = jax.tree.map(mute, blocks["attention"]["out"])
    attention = blocks["attention"] | {"out": out}
    blocks = blocks | {"attention": attention}
    return params | {"stack": params["stack"] | {"blocks": blocks}}


@pytest.mark.parametrize(
    "attention, pattern",
    [
        *(("dense", "full"), ("dense", "causal"), ("library", "causal")),
        *(("interval", "full"), ("interval", "causal")),
    ],
)
def test_each_layer_has_its_own_mask(
    attention, pattern, make_options, make_group, make_params
):
    """By gradient, in packed rows; layers 0 and 3 have no window."""
    own = {"layers": 4, "window": 2, "global_every": 3, "attention": attention}
    options = make_options(**own, position="rotary", rope_theta_local=100.0)
    group = make_group(1, LENGTH, segment=SEGMENT, causal=pattern == "causal")
    group["token"] = np.arange(LENGTH, dtype=np.int32)[None]
    network = Transformer(options, 50, pattern)
    params = make_params(network, lambda net: net.states(group))
    direction = np.random.default_rng(0).normal(size=options.width)

    def states(rows, params):
        params = params | {"token": {"embedding": rows}}
        return networks.apply(network, params, lambda net: net.states(group))[0]

    gradient = jax.jit(jax.jacrev(lambda *args: states(*args) @ direction))
    for layer in range(options.layers):
        here = attention_of_one_layer(params, layer)
        grad = gradient(params["token"]["embedding"], here)[:, :LENGTH]
        window = 0 if layer in (0, 3) else 2
        expected = mask_by_definition(window, causal=pattern == "causal")
        expected |= np.eye(LENGTH, dtype=bool)
        np.testing.assert_array_equal(np.any(grad != 0, axis=-1), expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"layers": 3, "position": "rotary", "rope_theta_local": 50.0, "remat": "full"},
        pytest.param({"position": "t5"}, marks=pytest.mark.long),
    ],
    ids=lambda changes: changes["position"],
)
def test_the_kernel_equals_dense_attention(
    changes, make_options, make_group, make_params, assert_close
):
    """In value and gradient, packed, of the scored positions alone."""
    options = make_options(window=2, global_every=2, **changes)
    group = make_group(1, LENGTH, segment=SEGMENT)
    scored = np.array([[9, 3, 0, 12]], np.int32)

    def loss_and_gradient(attention):
        own = dataclasses.replace(options, attention=attention)
        network = Transformer(own, 50, "full")

        def loss(params):
            states = networks.apply(network, params, run, jax.random.key(1))
            return jnp.mean(jnp.sin(3 * states))

        return jax.jit(jax.value_and_grad(loss))(params)

    def run(net):
        return net.states(group, scored=scored)

    params = make_params(Transformer(options, 50, "full"), run)
    dense = loss_and_gradient("dense")
    assert_close(loss_and_gradient("interval"), dense)


def test_layers_with_a_window_have_their_own_base_of_rotary(
    make_options, make_group, make_params
):
    """Layer 0 has none. The windows are as wide as the row."""
    group = make_group(1, LENGTH)
    own = {"layers": 2, "position": "rotary", "rope_theta": 500.0}

    def make_network(**changes):
        return Transformer(make_options(**(own | changes)), 50, "full")

    def states(net):
        outputs = net.outputs(group, with_inputs=True)
        return outputs.states, outputs.inputs

    wide = {"window": LENGTH, "rope_theta_local": 20.0}
    plain, other = make_network(), make_network(rope_theta=20.0)
    params = make_params(plain, states)
    everywhere, every_second, same, expected, expected_other = (
        apply(network, params, states)
        for network in (
            make_network(**wide),
            make_network(**wide, global_every=2),
            make_network(window=LENGTH, global_every=2),
            plain,
            other,
        )
    )
    np.testing.assert_allclose(everywhere[0], expected_other[0], atol=1e-5)
    np.testing.assert_allclose(same[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(every_second[1][1], expected[1][1], atol=1e-5)
    for one in (expected, expected_other):
        assert np.abs(every_second[0] - one[0]).max() > 1e-3


def test_attention_to_an_encoder_has_no_window(make_options, make_group, make_params):
    """A decoder's state depends on all of the encoder's text."""
    source, target = make_group(1, 9), make_group(1, 3, causal=True)
    source["token"] = np.arange(10, 19, dtype=np.int32)[None]
    network = EncoderDecoder(make_options(layers=1, window=1), 50)

    def run(net):
        return net.states(target, encoded=net.encode(source))[0, 2].sum()

    params = make_params(network, run)
    params["decoder"]["norm"]["scale"][:] = np.arange(16)
    grad = jax.jit(jax.grad(lambda params: networks.apply(network, params, run)))
    assert np.any(grad(params)["token"]["embedding"][10:19] != 0, axis=-1).all()


def test_where_the_order_is_not_that_of_positions_it_is_refused(
    make_options, make_group
):
    group = make_group(1, 8)

    def init(pattern, **changes):
        network = Transformer(make_options(window=3, **changes), 50, pattern)

        def run(net):
            mems = net.empty_mems(1, 4) if changes else None
            return net.outputs(group, mems=mems).states

        jax.eval_shape(lambda: networks.init(network, run, jax.random.key(0)))

    init("full")
    with pytest.raises(UserError, match=r"window is 3, but the attention mask.*=0"):
        init("general")
    with pytest.raises(UserError, match=r"window is 3, but all .* mems .*window=0"):
        init("causal", position="relative")
