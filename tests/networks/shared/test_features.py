"""Features: stated sums of states, and a BiLSTM that reads no padding."""

import jax
import numpy as np
import pytest

from research.contract.batch import FEATURE
from research.contract.errors import UserError
from research.networks.shared.features import OF_VECTORS, FeatureLayers
from research.networks.transformer.one_stack import Transformer
from research.objectives import make_objective
from tests.testing.compiled_apply import apply

L, WIDTH = 6, 16
SIZES = np.array([6, 4, 1])
SEGMENT = (np.arange(L) < SIZES[:, None]).astype(np.int32)
GROUP = {"segment": SEGMENT}


def random_states(num_blocks, seed=0):
    """States of the last block [B, L, D], and the inputs of all blocks."""
    random = np.random.default_rng(seed)
    states = random.normal(size=(num_blocks + 1, len(SIZES), L, WIDTH))
    states = states.astype(np.float32)
    return states[-1], states[:-1]


def test_the_mix_is_elmos_sum(make_options, make_params):
    x, inputs = random_states(5)
    layer = FeatureLayers(make_options(), "mix", 0)
    features = lambda net: net(GROUP, x, inputs)  # noqa: E731
    params = make_params(layer, features)
    weight = np.exp(params["layers"])
    assert weight.shape == (6,)
    expected = np.tensordot(weight / weight.sum(), [*inputs, x], 1) * params["scale"]
    actual = apply(layer, params, features)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    params = {"layers": np.zeros(6, np.float32), "scale": np.float32(1)}
    mean = apply(layer, params, features)
    np.testing.assert_allclose(mean, np.mean([*inputs, x], axis=0), atol=1e-6)


@pytest.mark.parametrize("num_blocks", [2, 6])
def test_the_last_four_blocks_are_joined(num_blocks, make_options):
    x, inputs = random_states(num_blocks)
    layer = FeatureLayers(make_options(), "concat", 0)
    actual = apply(layer, {}, lambda net: net(GROUP, x, inputs))
    expected = [*inputs[1:], x][-4:]  # the first input is the embeddings
    np.testing.assert_array_equal(actual, np.concatenate(expected, axis=-1))


def test_vectors_are_before_the_last_states(make_options):
    x, _ = random_states(1)
    vectors = np.random.default_rng(1).normal(size=(*x.shape[:2], 3))
    group = GROUP | {FEATURE: np.float32(vectors)}
    for features, expected in (
        ("vectors", [group[FEATURE]]),
        ("vectors_last", [group[FEATURE], x]),
    ):
        layer = FeatureLayers(make_options(), features, 0)
        actual = apply(layer, {}, lambda net: net(group, x))
        np.testing.assert_array_equal(actual, np.concatenate(expected, axis=-1))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x_LF, cell):
    """The states of an LSTM with forget gates (Gers et al. 2000) over one row."""
    h = c = np.zeros(WIDTH)
    for x in x_LF:
        gate = {
            name: x @ cell[f"i{name}"]["kernel"]
            + h @ cell[f"h{name}"]["kernel"]
            + cell[f"h{name}"]["bias"]
            for name in "ifgo"
        }
        c = sigmoid(gate["f"]) * c + sigmoid(gate["i"]) * np.tanh(gate["g"])
        h = sigmoid(gate["o"]) * np.tanh(c)
        yield h


def test_a_bilstm_reads_each_row_alone_and_no_padding(make_options, make_params):
    x, inputs = random_states(2)
    layer = FeatureLayers(make_options(), "last", 2)
    params = make_params(layer, lambda net: net(GROUP, x, inputs))
    x[SEGMENT == 0] = 1e3
    actual = apply(layer, params, lambda net: net(GROUP, x, inputs))
    assert actual.shape == (3, L, 2 * WIDTH)
    for row, size in enumerate(SIZES):
        state = x[row, :size]
        for number in range(2):
            forward, backward = (
                params[f"{name}_{number}"]["cell"] for name in ("forward", "backward")
            )
            right = list(lstm(state, forward))
            left = list(lstm(state[::-1], backward))[::-1]
            state = np.concatenate([right, left], axis=1)
        np.testing.assert_allclose(actual[row, :size], state, atol=1e-4)


def test_a_networks_features_are_of_its_own_layers(
    make_options, make_group, make_params
):
    """The input of the second block is the state of a network that has the first."""
    group, options = make_group(), make_options(norm_placement="post")
    network = Transformer(options, size=50, feature_states="mix")

    def make(net):
        return net.outputs(group, with_inputs=True), net.features(group)

    params = make_params(network, make)
    (x, _, _, inputs, *_), mixed = apply(network, params, make)
    blocks = jax.tree.map(lambda leaf: leaf[:1], params["stack"]["blocks"])
    one = Transformer(make_options(norm_placement="post", layers=1), size=50)
    first = params | {"stack": params["stack"] | {"blocks": blocks}}
    state = apply(one, first, lambda net: net.states(group))
    np.testing.assert_allclose(inputs[1], state, atol=1e-5)
    weight = np.exp(params["features"]["layers"])
    expected = np.tensordot(weight / weight.sum(), [*inputs, x], 1)
    expected *= params["features"]["scale"]
    np.testing.assert_allclose(mixed, expected, atol=1e-5)
    scored = np.array([[3], [0]], np.int32)
    at = apply(network, params, lambda net: net.features(group, scored))
    np.testing.assert_array_equal(at, np.take_along_axis(mixed, scored[..., None], 1))


@pytest.mark.parametrize(
    "fields", [{"format": "bart"}, {"lm_coef": 0.5, "format": "gpt"}]
)
def test_heads_without_features_are_refused(fields):
    for keys in ({"features": "mix"}, {"lstm_layers": 1}):
        with pytest.raises(UserError, match="cannot be used with"):
            make_objective("sequence_classification", **fields, **keys)
    for keys in ({"features": "concat"}, {"lstm_layers": 1}):
        make_objective("sequence_classification", head="linear", **keys)
        with pytest.raises(UserError, match="needs another head than tanh"):
            make_objective("sequence_classification", **keys)
    with pytest.raises(
        UserError, match="features must be last, concat, mix, vectors or"
    ):
        make_objective("token_classification", features="all")
    for features in OF_VECTORS:
        with pytest.raises(UserError, match="need vectors; set vectors and"):
            make_objective("token_classification", features=features)
