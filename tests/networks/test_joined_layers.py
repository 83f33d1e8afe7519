"""LSTM layers that read both directions, and the views of a text that students have."""

import jax
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks import VIEWS, Needs
from research.networks.recurrent.lstm import Network
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.trees import make_params

VOCAB = vocab(size=50)
KEYS = {
    **{"layers": 1, "width": 8, "cell_width": 12, "joined_layers": 2},
    **{"joined_cell_width": 6, "input": "both", "embedding_width": 5},
    **{"character_filters": [0, 3, 3], "character_width": 3, "word_bytes": 10},
}
ADAPTIVE = {"cutoffs": [20], "embedding_width": 0, "output_head": "bias"}
NEEDS = Needs(pattern="full", features=VIEWS)
WIDTH, SIZES = 8, (4, 3)
TOKEN = np.array([[7, 8, 9, 10], [11, 12, 13, 0]], np.int32)


@pytest.fixture(scope="module")
def features():
    """A compiled function: token [2, 8] and segment -> [2, 8, F]; its parameters."""
    module = networks.build(Network(**KEYS), NEEDS, VOCAB)
    group = {name: np.ones((2, 8), np.int32) for name in ("token", "segment")}
    fn = lambda net, group: (net.features(group), net.states(group))  # noqa: E731
    params = make_params(module, lambda net: fn(net, group))

    @jax.jit
    def run(token, segment):
        group = {"token": token, "segment": segment}
        return networks.apply(module, params, lambda net: fn(net, group))

    return run, params


def rows(*texts):
    """token and segment [2, 8] of texts that are packed in the first row."""
    token, segment = np.zeros((2, 2, 8), np.int32)
    end = 0
    for number, text in enumerate(texts, 1):
        token[0, end : end + len(text)] = text
        segment[0, end : end + len(text)] = number
        end += len(text)
    return token, segment


def test_packed_texts_have_the_views_of_each_alone(features):
    run, _ = features
    first, second = TOKEN[0], TOKEN[1, :3]
    packed, states = run(*rows(first, second))
    alone = [run(*rows(text))[0][0, : len(text)] for text in (first, second)]
    np.testing.assert_allclose(packed[0, :7], np.concatenate(alone), atol=1e-5)
    assert packed.shape == (2, 8, 4 * WIDTH)
    np.testing.assert_array_equal(states, packed[..., 2 * WIDTH :])
    assert not np.any(packed[0, 7:])


def test_each_view_reads_its_side_of_the_text(features):
    run, _ = features
    before = np.asarray(run(*rows(TOKEN[0]))[0])[0, :4]
    changed = TOKEN[0].copy()
    changed[2] = 20
    after = np.asarray(run(*rows(changed))[0])[0, :4]
    differs = np.any((before != after).reshape(4, 4, WIDTH), axis=2)
    assert differs[:, 0].tolist() == [False, False, True, True]  # forward
    assert differs[:, 1].tolist() == [True, True, True, False]  # backward
    assert differs[:, 2:].all()


def test_joined_layers_have_the_sizes_and_the_depths_of_layers_of_their_own(features):
    _, params = features
    for side in ("forward", "backward"):
        for number in range(2):
            block = params[f"joined_{side}_{number}"][f"block_{1 + number}"]
            assert block["input_kernel"].shape == (1, 2 * WIDTH, 4 * 6)
            assert block["projection"].shape == (1, 6, WIDTH)
    depths = networks.layer_depths(params)
    found = depths["joined_forward_1"]["block_2"]["bias"].tolist()
    assert found == [3] and depths["token"]["table"]["embedding"] == 0
    spelled = params["token"]["spelled"]
    assert "filter_1" not in spelled and spelled["filter_3"].shape == (9, 3)


def test_joined_layers_have_dropout_of_their_outputs():
    keys = KEYS | {"input": "table", "joined_layers": 1, "output_dropout": 0.5}
    module = networks.build(Network(**keys), NEEDS, VOCAB)
    group = dict(zip(("token", "segment"), rows(TOKEN[0]), strict=True))
    run = lambda net: net.features(group)  # noqa: E731
    params = make_params(module, run)
    found = np.asarray(apply(module, params, run, jax.random.key(0)))[0, :4]
    zero = (found.reshape(4, 4, WIDTH) == 0).mean(axis=(0, 2))
    assert ((zero > 0.2) & (zero < 0.8)).all()


@pytest.mark.parametrize("place", ["hidden", "weight", "output"])
def test_joined_layers_have_each_dropout_of_a_layer(place):
    """Its mask is one of both directions; that of the output is of the last alone."""
    keys = KEYS | {"input": "table", "joined_layers": 1, f"{place}_dropout": 0.5}
    module = networks.build(Network(**keys), NEEDS, VOCAB)
    group = dict(zip(("token", "segment"), rows(TOKEN[0]), strict=True))

    def run(net):
        undropped = net.outputs(group).raw
        return net.features(group)[..., : 2 * WIDTH], undropped

    params = make_params(module, run)
    for side in ("forward", "backward"):  # the layer below has no state that it reads
        below = params[side]["stack"]["blocks"]
        below["recurrent_kernel"] = np.zeros_like(below["recurrent_kernel"])
    (below, joined), (other_below, other) = (
        apply(module, params, run, key) for key in (None, jax.random.key(0))
    )
    changes = [
        np.abs(a - b).max() > 1e-6 for a, b in ((below, other_below), (joined, other))
    ]
    assert changes == [place == "output", place != "output"]


@pytest.mark.parametrize(
    ("keys", "needs", "words"),
    [
        ({}, Needs(pattern="causal"), "one end at a time; set it to 0"),
        ({}, Needs(pattern="full", features="mix"), "set model.joined_layers=0"),
        ({"joined_layers": 0}, NEEDS, "is of model.joined_layers, which is 0"),
        ({"character_filters": [0, 0]}, NEEDS, "has numbers of filters"),
        (ADAPTIVE, NEEDS, "set model.cutoffs"),
    ],
)
def test_what_does_not_go_together_is_refused(keys, needs, words):
    with pytest.raises(UserError, match=words):
        networks.build(Network(**KEYS | keys), needs, VOCAB)
