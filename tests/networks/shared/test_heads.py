"""Heads of all kinds, the boundary head, biLMs, embedding norms."""

import jax
import numpy as np
import pytest

from research import networks
from research.networks.transformer.bilm import BiLM
from research.networks.transformer.one_stack import Transformer
from tests.testing.compiled_apply import apply


def gelu(x):
    return x * np.array(jax.scipy.stats.norm.cdf(x))


def dense(x, p):
    return x @ p["kernel"] + p["bias"]


def norm(x, p):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]


@pytest.mark.parametrize(
    "spec, hidden",
    [
        (3, gelu),
        (networks.HeadSpec(3, "tanh"), np.tanh),
        (networks.HeadSpec(3, "relu", hidden=5), lambda x: np.maximum(x, 0)),
        (networks.HeadSpec(3, "tanh", hidden=5, norm=True), np.tanh),
        (networks.HeadSpec(3, "none"), None),
    ],
)
def test_a_head_is_two_layers_or_one(spec, hidden, make_options, make_params):
    states = np.random.default_rng(0).normal(size=(2, 16)).astype(np.float32)
    network = Transformer(make_options(), size=50, heads={"label": spec})
    label = lambda net: net.head("label", states)  # noqa: E731
    params = make_params(network, label)
    own, is_pooled = params["head_label"], spec == networks.HeadSpec(3, "tanh")
    assert ("pooler" in params) == is_pooled
    first = params["pooler"] if is_pooled else own.get("dense")
    expected = states if hidden is None else hidden(dense(states, first))
    if isinstance(spec, networks.HeadSpec) and spec.hidden:
        assert own["dense"]["kernel"].shape == (16, 5)
    if "norm" in own:
        expected = norm(expected, own["norm"])
    assert ("norm" in own) == getattr(spec, "norm", False)
    actual = apply(network, params, label)
    np.testing.assert_allclose(actual, dense(expected, own["out"]), atol=1e-5)


def test_a_standardized_head_has_mean_0_and_variance_1_before_and_after_its_layer(
    make_options, make_params
):
    """BabyLM's: LayerNorms without parameters around the hidden layer."""
    states = np.random.default_rng(0).normal(2, 3, size=(2, 16)).astype(np.float32)
    spec = networks.HeadSpec(3, "relu", standardize=True)
    network = Transformer(make_options(), size=50, heads={"label": spec})
    label = lambda net: net.head("label", states)  # noqa: E731
    params = make_params(network, label)

    def standardized(x):
        return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)

    own = params["head_label"]
    hidden = np.maximum(dense(standardized(states), own["dense"]), 0)
    expected = dense(standardized(hidden), own["out"])
    np.testing.assert_allclose(apply(network, params, label), expected, atol=1e-3)


def test_only_a_head_of_fine_tuning_has_dropout(make_options, make_params):
    """At its own rate, before its last layer (BERT: 0.1; RoBERTa, BART: 0)."""
    states = np.ones((2, 400), np.float32)
    heads = {
        "sop": networks.HeadSpec(2, "tanh"),
        "label": networks.HeadSpec(2, "none", 0, True),
    }
    key = jax.random.key(0)

    def outputs(options, key=None):
        network = Transformer(options, size=50, heads=heads)
        fn = lambda net: {name: net.head(name, states) for name in heads}  # noqa: E731
        params = make_params(network, fn)
        kernel = params["head_label"]["out"]["kernel"]
        params["head_label"]["out"]["kernel"] = np.ones_like(kernel)
        params["head_label"]["out"]["bias"] = np.zeros(2, np.float32)
        return networks.apply(network, params, fn, key)

    options = make_options(width=400, dropout=0.5, head_dropout=0.25)
    off, on = outputs(options), outputs(options, key)
    np.testing.assert_array_equal(off["sop"], on["sop"])
    np.testing.assert_allclose(off["label"], 400, rtol=1e-6)
    kept = np.array(on["label"]) * 0.75  # each that stays is divided by 1 - rate
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-3)
    assert (np.abs(kept - 300) < 6 * (400 * 0.75 * 0.25) ** 0.5).all()
    assert not np.array_equal(off["label"], on["label"])


@pytest.mark.parametrize(
    ("output_head", "own"),
    [
        ("auto", {"dense", "norm", "bias"}),
        ("transform", {"dense", "norm", "bias"}),
        ("bias", {"bias"}),
        ("table", set()),
    ],
)
def test_an_output_head_is_the_objectives_unless_it_is_named(
    output_head, own, make_options, make_params
):
    """XLM's PredLayer is a tied table with a bias (model/transformer.py)."""
    states = np.ones((2, 16), np.float32)
    options = make_options(output_head=output_head)
    for transform in (True, False):
        network = Transformer(options, size=50, transform=transform)
        params = make_params(network, lambda net: net.readout(states))
        auto_without = output_head == "auto" and not transform
        expected = set() if auto_without else own
        assert set(params.get("output", {})) == expected
    readout = apply(network, params, lambda net: net.readout(states))
    if output_head == "bias":
        np.testing.assert_array_equal(readout.feature, states)
        np.testing.assert_array_equal(readout.bias[:50], params["output"]["bias"][:50])


def test_the_softmax_counts_all_rows_of_t5s_table(make_options, make_params):
    states = np.ones((2, 16), np.float32)
    network = Transformer(make_options(output_rows="table"), size=200)
    params = make_params(network, lambda net: net.readout(states))
    readout = apply(network, params, lambda net: net.readout(states))
    assert (readout.table.shape, readout.size) == ((256, 16), 256)
    np.testing.assert_array_equal(readout.bias, 0)


def test_an_illegal_head_is_refused():
    with pytest.raises(ValueError, match=r"activation must be .* not 'tan'"):
        networks.HeadSpec(2, "tan")
    with pytest.raises(ValueError, match="both must be at least 0"):
        networks.HeadSpec(-1)


def test_a_boundary_head_reads_two_states_and_an_offset(make_options, make_params):
    """Two layers with norms, then the token table (Joshi et al. 2020, section 3.2)."""
    random = np.random.default_rng(0)
    left, right = random.normal(size=(2, 2, 5, 16)).astype(np.float32)
    offset = random.integers(0, 4, (2, 5), dtype=np.int32)
    options = make_options(embedding_width=8)
    network = Transformer(options, size=50, transform=True, offsets=4)
    group = {name: offset for name in ("token", "position", "segment", "token_type")}
    group |= {"rank": 0 * offset, "reach": 0 * offset}

    def readouts(net):
        return net.boundary(left, right, offset), net.readout(net.states(group))

    params = make_params(network, readouts)
    own = params["boundary_head"]
    assert own["offset"].shape == (4, 200)
    x = np.concatenate([left, right, own["offset"][offset]], axis=-1)
    for layer in ("first", "second"):
        x = norm(gelu(dense(x, own[layer])), own[f"{layer}_norm"])
    readout, other = apply(network, params, readouts)
    np.testing.assert_allclose(readout.feature, x, atol=2e-5)
    np.testing.assert_array_equal(readout.table, params["token"]["embedding"])
    np.testing.assert_array_equal(readout.table, other.table)
    np.testing.assert_array_equal(readout.bias[:50], own["bias"][:50])
    assert (np.array(readout.bias[50:]) < -1e8).all() and readout.size == 50


def test_a_bilms_directions_share_embeddings_and_readout_but_no_stack(
    make_options, make_group, make_params
):
    group, options = make_group(), make_options(norm_placement="post", token_types=2)
    network = BiLM(options, size=50, transform=True)

    def both(net):
        directions = (net.forward, net.backward)
        return [one.readout(one.states(group)) for one in directions]

    params = make_params(network, both)
    assert set(params["forward"]) == {"token", "embeddings", "stack", "output"}
    assert set(params["backward"]) == {"stack"}
    forward, backward = apply(network, params, both)
    for shared in ("table", "bias"):
        np.testing.assert_array_equal(
            getattr(forward, shared), getattr(backward, shared)
        )
    assert np.abs(forward.feature - backward.feature).max() > 1e-2
    same = params | {"backward": {"stack": params["forward"]["stack"]}}
    forward, backward = apply(network, same, both)
    np.testing.assert_array_equal(forward.feature, backward.feature)
    transformer = Transformer(options, size=50, transform=True)
    expected = apply(
        transformer, params["forward"], lambda net: net.readout(net.states(group))
    )
    np.testing.assert_allclose(forward.feature, expected.feature, atol=1e-5)


def test_post_norm_models_have_an_embedding_norm_unless_configured(
    make_options, make_group, make_params
):
    """GPT and XLNet are post-norm without one (the released codes)."""
    group = make_group()

    def has_norm(**changes):
        network = Transformer(make_options(**changes), size=50)
        params = make_params(network, lambda net: net.states(group))
        return "norm" in params["embeddings"]

    assert has_norm(norm_placement="post") and not has_norm(norm_placement="pre")
    assert has_norm(embedding_norm="always")
    assert not has_norm(norm_placement="post", embedding_norm="never")
