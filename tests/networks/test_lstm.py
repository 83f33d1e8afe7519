"""The LSTM: known values of its cell, where it drops, and how large it is."""

import jax
import numpy as np
import pytest

from research import networks
from research.networks import Needs
from research.networks.lstm import Network, State
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab

VOCAB = vocab(size=50)


def make_module(**keys):
    return networks.build(Network(**keys), Needs(pattern="causal"), VOCAB)


def params_of(rows, **blocks):
    """Parameters of one layer, from the rows of the first tokens."""
    table = np.zeros((128, 1), np.float32)
    table[: len(rows), 0] = rows
    layer = {name: np.float32(leaf)[None] for name, leaf in blocks.items()}
    return {"token": {"embedding": table}, "stack": {"blocks": layer}}


def group_of(segment):
    segment = np.array([segment], np.int32)
    return {"token": np.arange(segment.size, dtype=np.int32)[None], "segment": segment}


def test_the_states_are_those_of_the_formula_and_begin_anew_with_a_segment():
    """One cell without the forget gate's 1, by a loop in float64."""
    params = params_of(
        [1, -2, 0.5, 1, 3],
        input_kernel=[[0.5, -0.3, 0.8, 0.1]],
        recurrent_kernel=[[0.2, 0.4, -0.1, 0.6]],
        bias=[0, -1, 0, 0],
    )
    group, module = group_of([1, 1, 2, 2, 0]), make_module(layers=1, width=1)
    states = apply(module, params, lambda net: net.states(group))
    expected = [0.20542513, 0.00880584, 0.10783364, 0.25260635, 0]
    np.testing.assert_allclose(states[0, :, 0], expected, atol=1e-7)


def test_a_projection_is_what_the_next_position_reads():
    """ELMo's cell: two cells, projected to a width of one, with the forget gate's 1."""
    params = params_of(
        [0.5],
        input_kernel=[[0.1, 0.5, 0.3, 0.7, -0.2, -0.6, 0.4, 0.8]],
        recurrent_kernel=[[0.2, 0.1, -0.3, -0.2, 0.1, 0.4, 0.2, 0.3]],
        bias=[0, 0, 0, 0, 0.1, 1, -2, 0.1],
        projection=[[1.5], [-4]],
    )
    before = State(
        hidden=np.array([[[0.2]]], np.float32),
        cell=np.array([[[1, -2.9]]], np.float32),
        segment=np.array([1], np.int32),
    )
    module = make_module(layers=1, width=1, cell_width=2)
    group = group_of([1])
    states, after = apply(module, params, lambda net: net.states(group, cache=before))
    np.testing.assert_allclose(after.cell[0, 0], [0.82763983, -2.95748477], rtol=1e-6)
    np.testing.assert_allclose(states[0, 0], [3.11984265], rtol=1e-6)


def test_padding_leaves_the_state_as_it_is():
    params = params_of(
        [1, -2, 3, 0.5],
        input_kernel=[[0.5, -0.3, 0.8, 0.1]],
        recurrent_kernel=[[0.2, 0.4, -0.1, 0.6]],
        bias=[0, -1, 0, 0],
    )
    module = make_module(layers=1, width=1)

    def state_after(segment):
        group, empty = group_of(segment), module.empty_cache(1, 0)
        return apply(module, params, lambda net: net.states(group, cache=empty))[1]

    jax.tree.map(
        np.testing.assert_array_equal, state_after([1, 1]), state_after([1, 1, 0, 0])
    )


@pytest.mark.parametrize("place", Network.dropout_places)
def test_each_place_of_dropout_has_a_rate_of_its_own(place):
    group, heads = group_of([1] * 6), {"label": networks.HeadSpec(3, dropout=True)}
    off = {f"{each}_dropout": 0.0 for each in Network.dropout_places}

    def run(**rates):
        keys = {"layers": 3, "width": 16, "dropout": 0.4, **off, **rates}
        needs = Needs(pattern="causal", heads=heads)
        module = networks.build(Network(**keys), needs, VOCAB)

        def fn(net):
            states = net.states(group)
            return states, net.head("label", states)

        init = jax.jit(lambda key: networks.unbox(networks.init(module, fn, key)))
        return apply(module, init(jax.random.key(0)), fn, jax.random.key(1))

    (states, label), (dropped, dropped_label) = run(), run(**{f"{place}_dropout": -1})
    assert np.abs(dropped_label - label).max() > 0
    assert (np.abs(dropped - states).max() > 0) == (place != "head")
    assert (np.mean(dropped == 0) > 0.2) == (place == "output")


def test_a_projection_and_a_bias_are_parameters_only_where_they_are_asked_for():
    group = group_of([1, 1])

    def count(**keys):
        module = make_module(layers=2, width=16, **keys)
        init = lambda: networks.init(module, lambda net: net.states(group), KEY)  # noqa: E731
        blocks = networks.unbox(jax.eval_shape(init))["stack"]["blocks"]
        return sum(leaf.size for leaf in jax.tree.leaves(blocks))

    assert count() == 2 * 4 * 16 * (16 + 16 + 1)
    assert count(bias=False) == 2 * 4 * 16 * (16 + 16)
    assert count(cell_width=24) == 2 * (4 * 24 * (16 + 16 + 1) + 24 * 16)


KEY = jax.random.key(0)
