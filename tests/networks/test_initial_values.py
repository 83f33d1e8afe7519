"""Initial values: each scheme of `model.init` has its published deviations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.networks.shared.activations import ACTIVATIONS
from research.networks.transformer.one_stack import Transformer

KEY = jax.random.key(0)
T5 = {"init": "t5", "position": "t5", "norm": "rmsnorm", "bias": False}


def initial_params(options, group):
    """The initial parameters of a network with these options and its readout."""
    network = Transformer(options, size=500)
    fn = lambda net: net.readout(net.states(group))  # noqa: E731
    init = jax.jit(lambda key: networks.init(network, fn, key))
    return networks.unbox(init(jax.random.key(0)))


def test_truncated_initial_values_stay_within_two_deviations(make_options, make_group):
    group = make_group()
    options = make_options(width=64, feedforward=256, token_types=2, init="truncated")
    made = initial_params(options, group)
    drawn = [x for p, x in jax.tree.leaves_with_path(made) if jnp.std(x) > 0]
    assert len(drawn) == 3 + 6
    # The standard deviation of N(0, 1) truncated at 2 is 0.8796.
    for leaf in drawn:
        assert np.abs(leaf).max() <= 0.04
        np.testing.assert_allclose(np.std(leaf), 0.02 * 0.8796, rtol=0.15)


@pytest.mark.parametrize("quantization", ["none", "split"])
def test_electra_has_glorot_values_where_its_code_names_none(
    make_options, make_group, quantization
):
    """Where kernels are a sum of two, each of these has them."""
    group = make_group()
    options = make_options(
        **{"width": 64, "embedding_width": 16, "feedforward": 256, "token_types": 2},
        **{"init": "electra", "quantization": quantization},
    )
    network = Transformer(options, size=500, heads={"replaced": 1})
    fn = lambda net: net.head("replaced", net.states(group))  # noqa: E731
    made = networks.unbox(jax.jit(lambda k: networks.init(network, fn, k))(KEY))
    out = made["head_replaced"]["out"]["kernel"]
    project = made["stack"]["project"]["kernel"]
    for leaf, bound in ((out, (6 / 65) ** 0.5), (project, (6 / 80) ** 0.5)):
        assert 0.9 * bound < np.abs(leaf).max() <= bound
        np.testing.assert_allclose(np.std(leaf), bound / 3**0.5, rtol=0.1)
    drawn = [x for p, x in jax.tree.leaves_with_path(made) if jnp.std(x) > 0]
    assert sum(np.abs(leaf).max() <= 0.04 for leaf in drawn) == len(drawn) - 2


def test_gpt2_scales_what_is_added_to_the_residual_stream(make_options, make_group):
    group = make_group()
    options = make_options(init="gpt2", layers=8, width=64, feedforward=256)
    params = initial_params(options, group)
    block = params["stack"]["blocks"]
    for kernel, std in (
        (block["attention"]["out"]["kernel"], 0.02 / 4),
        (block["feedforward"]["out"]["kernel"], 0.02 / 4),
        (block["attention"]["query"]["kernel"], 0.02),
        (block["feedforward"]["in"]["kernel"], 0.02),
        (params["embeddings"]["position"], 0.01),
    ):
        np.testing.assert_allclose(np.std(kernel), std, rtol=0.1)
    first, second = (block["feedforward"]["in"]["kernel"][n] for n in (0, 1))
    assert np.abs(first - second).max() > 0.01


def test_blocks_without_residual_kernels_are_the_identity(make_options, make_group):
    group = make_group()
    options = make_options(init="zero_residual", activation="relu2")
    params = initial_params(options, group)
    block = params["stack"]["blocks"]
    for kernel in (block["attention"]["out"], block["feedforward"]["out"]):
        assert not np.any(kernel["kernel"])
    for kernel in (block["attention"]["query"], block["feedforward"]["in"]):
        np.testing.assert_allclose(np.std(kernel["kernel"]), 0.02, rtol=0.1)


def test_relu2_is_the_square_of_what_is_above_0():
    x = np.array([-2.0, 0.0, 0.5, 3.0], np.float32)
    np.testing.assert_array_equal(ACTIVATIONS["relu2"].apply(x), [0, 0, 0.25, 9])


def test_t5_initialises_by_fan_in(make_options, make_group):
    group = make_group()
    options = make_options(width=64, feedforward=256, activation="relu", **T5)
    params = initial_params(options, group)
    block = params["stack"]["blocks"]
    for kernel, std in (
        (params["token"]["embedding"], 1.0),
        (block["attention"]["query"]["kernel"], (64 * 32) ** -0.5),
        (block["attention"]["key"]["kernel"], 64**-0.5),
        (block["attention"]["out"]["kernel"], 64**-0.5),
        (block["feedforward"]["in"]["kernel"], 64**-0.5),
        (block["feedforward"]["out"]["kernel"], 256**-0.5),
    ):
        np.testing.assert_allclose(np.std(kernel), std, rtol=0.1)
    assert not [p for p, _ in jax.tree.leaves_with_path(params) if "bias" in str(p)]


def test_xlm_initialises_dense_layers_as_pytorch_does(make_options, make_group):
    group = make_group()
    options = make_options(
        width=64, feedforward=256, token_types=8, init="xlm", output_head="bias"
    )
    params = initial_params(options, group)
    block, embeddings = params["stack"]["blocks"], params["embeddings"]
    tables = embeddings["position"], embeddings["token_type"]
    for table in (params["token"]["embedding"], *tables):
        np.testing.assert_allclose(np.std(table), 64**-0.5, rtol=0.1)
    for leaf, fan_in in (
        (block["attention"]["query"]["kernel"], 64),
        (block["feedforward"]["out"]["kernel"], 256),
        (block["feedforward"]["out"]["bias"], 256),
        (params["output"]["bias"], 64),
    ):
        bound = fan_in**-0.5
        assert 0.9 * bound < np.abs(leaf).max() <= bound
        np.testing.assert_allclose(np.std(leaf), bound / 3**0.5, rtol=0.1)
