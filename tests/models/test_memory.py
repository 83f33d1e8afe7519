"""Laws of a memory: a text in parts is the text as a whole, but for the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models
from research.errors import UserError

HALF = 6


@pytest.fixture
def make_network(make_options, make_params):
    """A causal network with relative positions, and parameters of any values."""

    def make(group, **changes):
        options = make_options(layers=3, position="relative", **changes)
        network = models.Transformer(options, size=50, pattern="causal")
        return network, make_params(network, lambda net: net.states(group))

    return make


def halves(group):
    """Both halves of a group, whose positions start anew."""
    cut = lambda part: {name: array[:, part] for name, array in group.items()}  # noqa: E731
    return cut(slice(HALF)), cut(slice(HALF, None))


def in_parts(network, params, parts, size, **how):
    """The states of each part and the memory after it, from no memory on."""

    def run(net):
        memory, found = net.no_memory(len(parts[0]["token"]), size), []
        for part in parts:
            states, memory = net.states(part, memory=memory, **how)
            found.append((states, memory))
        return found

    return jax.jit(lambda params: models.apply(network, params, run))(params)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_placement": "post"},
        {"shared_layers": True, "scan_unroll": 3},
        {"token_type_encoding": "relative", "token_types": 2, "remat": "dots"},
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_the_second_half_is_that_of_the_whole(
    changes, backwards, make_network, make_group
):
    """Also where the memory has room for more than there was, and in falling rows."""
    group = make_group(causal=True)
    if backwards:
        group["position"] = group["position"][:, ::-1]
    network, params = make_network(group, **changes)
    whole = models.apply(network, params, lambda net: net.states(group))
    first, second = halves(group)
    second["position"] = first["position"]
    (before, _), (after, _) = in_parts(network, params, [first, second], HALF + 2)
    np.testing.assert_allclose(before, whole[:, :HALF], atol=2e-5)
    np.testing.assert_allclose(after, whole[:, HALF:], atol=2e-5)


def test_scored_states_with_a_memory_are_the_gathered_ones(make_network, make_group):
    parts = halves(make_group(causal=True))
    network, params = make_network(parts[0])
    scored = np.array([[3, 0, 5], [1, 1, 4]], np.int32)
    some = in_parts(network, params, parts, HALF, scored=scored)
    every = in_parts(network, params, parts, HALF)
    for (few, memory), (states, same) in zip(some, every, strict=True):
        expected = np.take_along_axis(np.array(states), scored[..., None], axis=1)
        np.testing.assert_allclose(few, expected, atol=2e-5)
        np.testing.assert_allclose(memory["state"], same["state"], atol=2e-5)


def test_nothing_is_learned_through_a_memory(make_network, make_group):
    parts = halves(make_group(causal=True))
    network, params = make_network(parts[0])
    (_, memory), _ = in_parts(network, params, parts, HALF)

    @jax.jit
    def through(state):
        def run(net):
            states, after = net.states(parts[1], memory=memory | {"state": state})
            return jnp.sum(jnp.sin(states)) + jnp.sum(after["state"] ** 2)

        return models.apply(network, params, run)

    assert abs(through(memory["state"]) - through(-memory["state"])) > 1e-3
    np.testing.assert_array_equal(jax.jit(jax.grad(through))(memory["state"]), 0)

    def remembered(params):
        run = lambda net: net.states(parts[1], memory=memory)[1]["state"]  # noqa: E731
        return jnp.sum(models.apply(network, params, run) ** 2)

    for leaf in jax.tree.leaves(jax.jit(jax.grad(remembered))(params)):
        np.testing.assert_array_equal(leaf, 0)


def test_a_memory_is_the_last_of_the_places_that_are_kept(make_network, make_group):
    """XLNet's: queries behind the keys are not remembered, nor is what comes again."""
    first, second = halves(make_group(causal=True))
    second["segment"] = np.array([[1] * HALF, [1, 1, 0, 0, 0, 0]], np.int32)
    network, params = make_network(first)
    how = {"keys": 5, "kept": 4}
    (_, one), (_, two) = in_parts(network, params, [first, second], 6, **how)
    np.testing.assert_array_equal(one["segment"], [[0, 0, 1, 1, 1, 1]] * 2)
    np.testing.assert_array_equal(two["segment"][0], [1] * 6)
    np.testing.assert_array_equal(two["segment"][1], [1, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(two["state"][:, :, :2], one["state"][:, :, -2:])
    np.testing.assert_array_equal(one["state"][:, :, :2], 0)
    rows = params["token"]["rows"][np.concatenate([first["token"], second["token"]], 1)]
    read = np.r_[2:4, HALF : HALF + 4]
    np.testing.assert_allclose(two["state"][:, 0], rows[:, read], atol=1e-6)


def test_what_is_no_memory_is_not_seen_and_padding_sees_none(make_network, make_group):
    group = halves(make_group(causal=True))[0]
    group["segment"] = np.array([[1] * HALF, [1, 1, 1, 1, 0, 0]], np.int32)
    network, params = make_network(group)
    random = np.random.default_rng(0)
    state = random.normal(size=(2, 3, 4, 16)).astype(np.float32)
    segment = np.array([[0, 1, 2, 0], [0, 0, 1, 1]], np.int32)

    @jax.jit
    def run(state, segment):
        memory = {"state": state, "segment": segment}
        return models.apply(
            network, params, lambda net: net.states(group, memory=memory)[0]
        )

    first = np.array(run(state, segment))
    unseen = (segment == 0)[:, None, :, None]
    np.testing.assert_array_equal(run(np.where(unseen, 7, state), segment), first)
    seen = np.abs(run(np.where(unseen, state, -state), segment) - first).max(axis=-1)
    np.testing.assert_array_equal(seen > 0, group["segment"] > 0)
    alone = models.apply(network, params, lambda net: net.states(group))
    np.testing.assert_allclose(run(state, 0 * segment), alone, atol=2e-5)


def test_a_memory_needs_relative_positions(make_options, make_group):
    group, network = make_group(), models.Transformer(make_options(), size=50)
    with pytest.raises(UserError, match=r"model\.position=relative"):
        models.init(
            network,
            lambda net: net.states(group, memory=net.no_memory(2, 3)),
            jax.random.key(0),
        )
