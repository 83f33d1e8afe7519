"""Networks of windows of words, NNLM and TextCNN: known values, sizes, refusals."""

import jax
import numpy as np
import pytest

from launch.config import load_config
from research import networks
from research.contract.errors import UserError
from research.networks import Needs
from research.networks.words import nnlm, word_cnn
from tests.testing import fast_key
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.trees import parameter_shapes

VOCAB = vocab(size=50)
CUT = {"cutoffs": [9], "output_head": "table"}


def test_nnlm_has_the_logits_of_its_equation():
    """Bengio et al. 2003, equation 1: two words of width 1, two hidden units."""
    keys = {"layers": 1, "width": 2, "embedding_width": 1, "context": 2}
    options = nnlm.Network(
        **keys, direct=True, tie_embeddings=False, output_head="bias"
    )
    module = networks.build(options, Needs(pattern="causal"), VOCAB)
    table, output, bias = (
        np.zeros((128, *shape), np.float32) for shape in ((1,), (4,), ())
    )
    table[:3, 0] = 0.1, 0.2, -0.3
    output[:3] = [[0.2, 0, 0.1, 0.2], [-0.1, 0, 0, 0.1], [0.3, 0, -0.2, 0.3]]
    bias[:3] = 0, 0.05, -0.05
    kernel = np.float32([[0.5, 0], [-0.4, 0]])
    params = {
        "token": {"embedding": table},
        "stack": {"block_0": {"kernel": kernel, "bias": np.float32([0.1, 0])}},
        "output": {"embedding": output, "bias": bias},
    }
    group = {"token": np.array([[2, 1]]), "segment": np.ones((1, 2), np.int32)}
    readout = apply(module, params, lambda net: net.readout(net.states(group)))
    logits = readout.feature[0, 1] @ readout.table[:3].T + readout.bias[:3]
    np.testing.assert_allclose(logits, [0.02190138, -0.01095069, -0.08714792], 1e-5)


def test_nnlm_has_the_number_of_parameters_of_the_paper():
    """Section 2, |V| (1 + n m + h) + h (1 + (n - 1) m), but for rows of padding."""
    options = load_config("experiments/nnlm.py:base").model
    module = networks.build(options, Needs(pattern="causal"), vocab(size=16_383))
    group = {"token": np.ones((1, 2), int), "segment": np.ones((1, 2), int)}
    use = lambda net: net.readout(net.states(group)).feature  # noqa: E731
    shapes = networks.unbox(
        jax.eval_shape(lambda: networks.init(module, use, fast_key.key(0)))
    )
    total = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    assert total - (-16_383 % 128) * (1 + 5 * 60 + 50) == 5_762_483


def cnn(needs=None, **keys):
    keys = {"width": 2, "embedding_width": 1, "filter_widths": [2, 1], **keys}
    return networks.build(
        word_cnn.Network(**keys), needs or Needs(pattern="full"), VOCAB
    )


def cnn_params(rows):
    table = np.zeros((128, 1), np.float32)
    table[: len(rows), 0] = rows
    stack = {
        "filter_2": np.float32([[[1]], [[-1]]]),
        "filter_1": np.float32([[[1]]]),
        "bias_2": np.float32([0.5]),
        "bias_1": np.float32([-1]),
    }
    return {"token": {"embedding": table}, "stack": stack}


def test_a_state_of_word_cnn_is_the_best_window_of_each_filter_that_it_is_in():
    """Texts -4 5 and 2: windows of two words are 0 -4, -4 5, 5 0 and 0 2, 2 0."""
    group = {"token": np.array([[0, 1, 2, 3]]), "segment": np.array([[1, 1, 2, 0]])}
    params = cnn_params([-4, 5, 2, 9])
    states = apply(cnn(), params, lambda net: net.states(group))
    expected = [[[4.5, 0], [5.5, 4], [2.5, 1], [0, 0]]]
    np.testing.assert_allclose(states, expected)


def test_two_channels_need_vectors():
    with pytest.raises(UserError, match=r"channels=two .* set objective\.vectors"):
        cnn(channels="two")


@pytest.mark.parametrize(("channels", "factor"), [("one", 1), ("two", 2)])
def test_given_vectors_are_a_channel_or_two(channels, factor):
    """Filters are linear: those of two channels give what their sum gives."""
    needs = Needs(pattern="full", input_features=1)
    group = {"token": np.array([[0, 1]]), "segment": np.array([[1, 1]])}
    given = group | {"feature": np.float32([[[3], [1]]])}
    module = cnn(needs, channels=channels)
    states = apply(module, cnn_params([1, 5]), lambda net: net.states(given))
    alone = apply(
        cnn(), cnn_params([1 + 3 * factor, 5 + factor]), lambda net: net.states(group)
    )
    np.testing.assert_allclose(states, alone)
    shapes, values = parameter_shapes(module, lambda net: net.states(given)), {}
    values["token"] = jax.jit(
        lambda key: networks.init(module, lambda net: net.states(given), key)
    )(fast_key.key(0))["token"]
    assert shapes["token"]["embedding"].shape == (128, 1)
    assert not np.any(networks.unbox(values)["token"]["embedding"])


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"filter_widths": []}, "model.filter_widths is []; it has whole numbers"),
        ({"filter_widths": [0]}, "model.filter_widths is [0]; it has whole numbers"),
        ({"filter_widths": [3, 3]}, "all differ, and their number divides"),
        ({"width": 3}, "their number divides model.width, 3"),
        (
            {**CUT, "embedding_width": 0},
            "model.cutoffs is not for model.network word_cnn",
        ),
    ],
)
def test_filters_that_are_none_are_refused(keys, error):
    with pytest.raises(UserError, match=error.replace("[", r"\[")):
        cnn(**keys)


def test_vectors_of_another_width_are_refused():
    with pytest.raises(UserError, match=r"these have 3 numbers, .* is 1"):
        cnn(Needs(pattern="full", input_features=3))
