"""The LSTM: known values of its cell, where it drops, and how large it is."""

from functools import cache

import jax
import numpy as np
import pytest

from launch.config import load_config
from research import networks
from research.networks import Needs
from research.networks.recurrent.lstm import Network
from research.networks.recurrent.lstm_stack import State
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
    found = apply(module, params, lambda net: net.outputs(group, cache=before))
    cell = found.cache.cell
    np.testing.assert_allclose(cell[0, 0], [0.82763983, -2.95748477], rtol=1e-6)
    np.testing.assert_allclose(found.states[0, 0], [3.11984265], rtol=1e-6)


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
        read = lambda net: net.outputs(group, cache=empty).cache  # noqa: E731
        return apply(module, params, read)

    jax.tree.map(
        np.testing.assert_array_equal, state_after([1, 1]), state_after([1, 1, 0, 0])
    )


def with_dropout(place=""):
    """A network that has dropout in this place alone, or none, and what is read."""
    group, heads = group_of([1] * 6), {"label": networks.HeadSpec(3, dropout=True)}
    rates = {f"{each}_dropout": 0.0 for each in Network.dropout_places}
    rates |= {f"{place}_dropout": -1} if place else {}
    keys = {"layers": 3, "width": 16, "dropout": 0.4, **rates}
    needs = Needs(pattern="causal", heads=heads)

    def read(net):
        states = net.states(group)
        return states, net.readout(states).feature, net.head("label", states)

    return networks.build(Network(**keys), needs, VOCAB), read


@cache
def initial_params():
    init = jax.jit(lambda key: networks.unbox(networks.init(*with_dropout(), key)))
    return init(jax.random.key(0))


@cache
def outputs(place):
    """Its states, what its output table multiplies, and a label."""
    module, read = with_dropout(place)
    return apply(module, initial_params(), read, jax.random.key(1))


@pytest.mark.parametrize("place", Network.dropout_places)
def test_each_place_of_dropout_has_a_rate_of_its_own(place):
    both = zip(*map(outputs, ("", place)), strict=True)
    differ = [np.any(one != other) for one, other in both]
    in_states = place not in ("readout", "head", "head_input")
    assert differ == [in_states, in_states or place == "readout", place != "readout"]
    dropped = outputs(place)[0]
    # A text that begins with words without vectors keeps a state of 0.
    assert (np.mean(dropped == 0) > 0.2) == (place in ("output", "word"))


@pytest.mark.parametrize("pattern", ["causal", "full"])
@pytest.mark.parametrize("width", [0, 8])
@pytest.mark.parametrize("cutoffs", [[], [20]])
def test_tables_begin_within_their_range_or_with_0_beside_given_vectors(
    pattern, width, cutoffs
):
    group = group_of([1] * 4)
    if width:
        group["feature"] = np.ones((1, 4, width), np.float32)
    needs = Needs(pattern=pattern, input_features=width)
    keys = {"cutoffs": cutoffs, "output_head": "bias", "table_range": 0.5}
    module = networks.build(Network(layers=1, width=16, **keys), needs, VOCAB)
    init = jax.jit(lambda: networks.init(module, lambda net: net.features(group), KEY))
    tables = jax.tree.leaves(networks.unbox(init())["token"])
    assert len(tables) == 1 + len(cutoffs)
    for table in tables:
        largest = np.abs(table).max()
        assert largest == 0 if width else 0.45 < largest < 0.5


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
    assert count(cell="pytorch") == 2 * 4 * 16 * (16 + 16 + 2)


def run_awd(group, key=None, **keys):
    """Module, parameters and states of three layers of widths 24, 24 and 16."""
    keys = {"layers": 3, "width": 16, "inner_width": 24, "cell": "pytorch", **keys}
    module = make_module(table_range=0.1, dropout_mask="locked", **keys)
    fn = lambda net: net.states(group)  # noqa: E731
    init = jax.jit(lambda key: networks.unbox(networks.init(module, fn, key)))
    params = init(jax.random.key(0))
    return module, params, apply(module, params, fn, key)


def test_layers_of_other_widths_have_a_state_each():
    """A text in two parts has the states of the whole."""
    group = group_of([1, 1, 1, 2, 2, 0])
    module, params, whole = run_awd(group)
    cache = module.empty_cache(1, 0)
    assert cache.hidden.shape == cache.cell.shape == (1, 3, 24)
    parts = []
    for part in (slice(0, 2), slice(2, 6)):
        here = {name: array[:, part] for name, array in group.items()}
        run = lambda net, here=here, cache=cache: net.outputs(here, cache=cache)  # noqa: E731
        found = apply(module, params, run)
        cache = found.cache
        parts.append(found.states)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=1e-6)
    blocks = [params["stack"][f"block_{n}"] for n in range(3)]
    shapes = [(b["input_kernel"].shape, b["recurrent_kernel"].shape) for b in blocks]
    assert shapes == [
        ((1, 16, 96), (1, 24, 96)),
        ((1, 24, 96), (1, 24, 96)),
        ((1, 24, 64), (1, 16, 64)),
    ]
    assert np.abs(params["token"]["embedding"]).max() <= 0.1
    depths = [
        networks.layer_depths(params)["stack"][f"block_{n}"]["bias"].tolist()
        for n in range(3)
    ]
    assert depths == [[1], [2], [3]], "rates of layers know the order"


def test_a_locked_mask_is_one_for_all_positions():
    group = group_of([1] * 6)
    *_, states = run_awd(group, jax.random.key(1), output_dropout=0.5)
    dropped = np.asarray(states[0] == 0)
    assert 0 < dropped[0].sum() < 16 and (dropped == dropped[0]).all()


def test_a_dropped_word_has_no_vector_anywhere_in_the_batch():
    """Rows of one word each: a word that is dropped leaves the biases alone."""
    word = np.array([[7], [8], [7], [9], [10], [8], [11], [12]], np.int32)
    group = {"token": word, "segment": np.ones_like(word)}
    rates = {"layers": 1, "inner_width": 0, "word_dropout": 0.5}
    *_, dropped = run_awd(group, jax.random.key(3), **rates)
    _, rows = np.unique(np.asarray(dropped[:, 0]), axis=0, return_inverse=True)
    row_of = {}
    for token, row in zip(word[:, 0].tolist(), rows.ravel().tolist(), strict=True):
        assert row_of.setdefault(token, row) == row, "once dropped, once not"
    assert 1 < len({*row_of.values()}) < len(row_of), "some are alike, not all"


def test_weight_dropout_drops_other_entries_each_time_and_the_kernel_learns():
    group = group_of([1] * 4)
    module, params, _ = run_awd(group, weight_dropout=0.5)
    score = lambda net: net.states(group).sum()  # noqa: E731

    @jax.jit
    def loss(params, key):
        return networks.apply(module, params, score, key)

    grad = jax.grad(loss)
    first, second = (grad(params, jax.random.key(n)) for n in (1, 2))
    of = lambda tree: np.asarray(tree["stack"]["block_1"]["recurrent_kernel"])  # noqa: E731
    zero = [np.mean(of(tree) == 0) for tree in (first, second)]
    assert np.allclose(zero, 0.5, atol=0.05) and (of(first) != of(second)).any()


@pytest.mark.parametrize(
    ("size", "published"), [(10_000, 24_221_600), (33_278, 33_556_078)]
)
def test_awd_lstm_has_the_published_number_of_parameters(size, published):
    """But for rows that pad tables to a multiple of 128, of a vector and a bias."""
    options = load_config("experiments/awd_lstm.py:base").model
    info = vocab(size=size, sentinels=0)
    module = networks.build(options, Needs(pattern="causal"), info)
    group = group_of([1, 1])
    use = lambda net: net.readout(net.states(group)).feature  # noqa: E731
    shapes = networks.unbox(jax.eval_shape(lambda: networks.init(module, use, KEY)))
    total = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert total - (-size % 128) * 401 == published


KEY = jax.random.key(0)
