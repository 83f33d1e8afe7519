"""With mems, a text in segments has the states of the whole text, but no gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.networks.transformer.one_stack import Transformer
from tests.testing.compiled_apply import apply

HALF = 6


@pytest.fixture
def make_network(make_options, make_params):
    """A causal network with relative positions, and random parameters."""

    def make(group, num_keys=None, **changes):
        options = make_options(layers=3, position="relative", **changes)
        network = Transformer(options, size=50, pattern="causal")
        states = lambda net: net.states(group, num_keys=num_keys)  # noqa: E731
        return network, make_params(network, states)

    return make


def split_in_half(group):
    """Both halves of a group."""
    first = {name: array[:, :HALF] for name, array in group.items()}
    second = {name: array[:, HALF:] for name, array in group.items()}
    return first, second


def run_parts(network, params, parts, num_mems, **kw):
    """The states of each part and the mems after it, starting from empty mems."""

    def run(net):
        mems, results = net.empty_mems(len(parts[0]["token"]), num_mems), []
        for part in parts:
            outputs = net.outputs(part, mems=mems, **kw)
            mems = outputs.mems
            results.append((outputs.states, mems))
        return results

    return jax.jit(lambda params: networks.apply(network, params, run))(params)


POST = {"norm_placement": "post"}
SHARED = {"shared_layers": True, "scan_unroll": 3}
TYPES = {"token_type_encoding": "relative", "token_types": 2, "remat": "dots"}


@pytest.mark.parametrize(
    ("changes", "backwards"),
    [
        pytest.param(changes, backwards, marks=[pytest.mark.long] * is_long)
        for changes, backwards, is_long in (
            (POST, False, True),
            (POST, True, False),
            (SHARED, False, False),
            (SHARED, True, True),
            (TYPES, False, True),
            (TYPES, True, False),
        )
    ],
)
def test_the_second_half_equals_that_of_the_whole(
    changes, backwards, make_network, make_group
):
    """Also with more mems than positions so far, and with decreasing positions."""
    group = make_group(causal=True)
    if backwards:
        group["position"] = group["position"][:, ::-1]
    network, params = make_network(group, **changes)
    whole = apply(network, params, lambda net: net.states(group))
    first, second = split_in_half(group)
    second["position"] = first["position"]
    results = run_parts(network, params, [first, second], HALF + 2)
    (first_states, _), (second_states, _) = results
    np.testing.assert_allclose(first_states, whole[:, :HALF], atol=2e-5)
    np.testing.assert_allclose(second_states, whole[:, HALF:], atol=2e-5)


def test_scored_states_with_mems_are_the_gathered_ones(make_network, make_group):
    parts = split_in_half(make_group(causal=True))
    network, params = make_network(parts[0])
    scored = np.array([[3, 0, 5], [1, 1, 4]], np.int32)
    at_scored = run_parts(network, params, parts, HALF, scored=scored)
    at_all = run_parts(network, params, parts, HALF)
    for (some, mems), (states, same) in zip(at_scored, at_all, strict=True):
        expected = np.take_along_axis(np.array(states), scored[..., None], axis=1)
        np.testing.assert_allclose(some, expected, atol=2e-5)
        np.testing.assert_allclose(mems["state"], same["state"], atol=2e-5)


def test_no_gradient_flows_through_the_mems_of_this_row(make_network, make_group):
    parts = split_in_half(make_group(causal=True))
    network, params = make_network(parts[0])
    (_, mems), _ = run_parts(network, params, parts, HALF)

    def loss_of_mems(params):
        run = lambda net: net.outputs(parts[1], mems=mems).mems["state"]  # noqa: E731
        return jnp.sum(networks.apply(network, params, run) ** 2)

    for leaf in jax.tree.leaves(jax.jit(jax.grad(loss_of_mems))(params)):
        np.testing.assert_array_equal(leaf, 0)


def test_mems_are_the_last_of_the_reused_positions(make_network, make_group):
    """XLNet: neither appended queries nor positions that are repeated become mems."""
    first, second = split_in_half(make_group(causal=True))
    second["segment"] = np.array([[1] * HALF, [1, 1, 0, 0, 0, 0]], np.int32)
    kw = {"num_keys": 5, "reuse_len": 4}
    network, params = make_network(first, num_keys=5)
    (_, one), (_, two) = run_parts(network, params, [first, second], 6, **kw)
    np.testing.assert_array_equal(one["segment"], [[0, 0, 1, 1, 1, 1]] * 2)
    np.testing.assert_array_equal(two["segment"][0], [1] * 6)
    np.testing.assert_array_equal(two["segment"][1], [1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(two["state"][:, :, :2], one["state"][:, :, -2:])
    np.testing.assert_array_equal(one["state"][:, :, :2], 0)
    token = np.concatenate([first["token"], second["token"]], 1)
    rows = params["token"]["embedding"][token]
    reused = np.r_[2:4, HALF : HALF + 4]
    np.testing.assert_allclose(two["state"][:, 0], rows[:, reused], atol=1e-6)


def test_padding_mems_are_masked_and_padding_queries_attend_to_no_mems(
    make_network, make_group
):
    group = split_in_half(make_group(causal=True))[0]
    group["segment"] = np.array([[1] * HALF, [1, 1, 1, 1, 0, 0]], np.int32)
    network, params = make_network(group)
    random = np.random.default_rng(0)
    state = random.normal(size=(2, 3, 4, 16)).astype(np.float32)
    segment = np.array([[0, 1, 2, 0], [0, 0, 1, 1]], np.int32)

    @jax.jit
    def run(state, segment):
        mems = {"state": state, "segment": segment}
        return networks.apply(
            network, params, lambda net: net.outputs(group, mems=mems).states
        )

    first = np.array(run(state, segment))
    padding = (segment == 0)[:, None, :, None]
    np.testing.assert_array_equal(run(np.where(padding, 7, state), segment), first)
    other = run(np.where(padding, state, -state), segment)
    changed = np.abs(other - first).max(axis=-1) > 0
    np.testing.assert_array_equal(changed, group["segment"] > 0)
    without = apply(network, params, lambda net: net.states(group))
    np.testing.assert_allclose(run(state, 0 * segment), without, atol=2e-5)
