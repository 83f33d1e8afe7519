"""Heads of all kinds, the boundary head, biLMs, embedding norms, initial values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models


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
        (models.HeadSpec(3, "tanh"), np.tanh),
        (models.HeadSpec(3, "relu", hidden=5), lambda x: np.maximum(x, 0)),
        (models.HeadSpec(3, "none"), None),
    ],
)
def test_a_head_is_two_layers_or_one(spec, hidden, make_options, make_params):
    states = np.random.default_rng(0).normal(size=(2, 16)).astype(np.float32)
    network = models.Transformer(make_options(), size=50, heads={"label": spec})
    label = lambda net: net.head("label", states)  # noqa: E731
    params = make_params(network, label)
    own = params["answer_label"]
    expected = states if hidden is None else hidden(dense(states, own["dense"]))
    if isinstance(spec, models.HeadSpec) and spec.hidden:
        assert own["dense"]["kernel"].shape == (16, 5)
    actual = models.apply(network, params, label)
    np.testing.assert_allclose(actual, dense(expected, own["out"]), atol=1e-5)


def test_an_illegal_head_is_refused():
    with pytest.raises(ValueError, match="activation is 'tan'"):
        models.HeadSpec(2, "tan")
    with pytest.raises(ValueError, match="at least 1 value"):
        models.HeadSpec(0)


def test_a_boundary_head_reads_two_states_and_an_offset(make_options, make_params):
    """Two layers with norms, then the token table (Joshi et al. 2020, section 3.2)."""
    random = np.random.default_rng(0)
    left, right = random.normal(size=(2, 2, 5, 16)).astype(np.float32)
    offset = random.integers(0, 4, (2, 5), dtype=np.int32)
    options = make_options(embedding_width=8)
    network = models.Transformer(options, size=50, transform=True, offsets=4)
    group = {name: offset for name in ("token", "position", "segment", "token_type")}
    group |= {"rank": 0 * offset, "reach": 0 * offset}

    def readouts(net):
        return net.boundary(left, right, offset), net.readout(net.states(group))

    params = make_params(network, readouts)
    own = params["sides"]
    assert own["offset"].shape == (4, 200)
    x = np.concatenate([left, right, own["offset"][offset]], axis=-1)
    for layer in ("first", "second"):
        x = norm(gelu(dense(x, own[layer])), own[f"{layer}_norm"])
    readout, other = models.apply(network, params, readouts)
    np.testing.assert_allclose(readout.feature, x, atol=2e-5)
    np.testing.assert_array_equal(readout.table, params["token"]["rows"])
    np.testing.assert_array_equal(readout.table, other.table)
    np.testing.assert_array_equal(readout.bias[:50], own["bias"][:50])
    assert (np.array(readout.bias[50:]) < -1e8).all() and readout.size == 50


def test_a_bilms_directions_share_embeddings_and_readout_but_no_stack(
    make_options, make_group, make_params
):
    group, options = make_group(), make_options(norm_placement="post", token_types=2)
    network = models.BiLM(options, size=50, transform=True)

    def both(net):
        directions = (net.forward, net.backward)
        return [one.readout(one.states(group)) for one in directions]

    params = make_params(network, both)
    assert set(params["forward"]) == {"token", "place", "stack", "output"}
    assert set(params["backward"]) == {"stack"}
    forward, backward = models.apply(network, params, both)
    for shared in ("table", "bias"):
        np.testing.assert_array_equal(
            getattr(forward, shared), getattr(backward, shared)
        )
    assert np.abs(forward.feature - backward.feature).max() > 1e-2
    same = params | {"backward": {"stack": params["forward"]["stack"]}}
    forward, backward = models.apply(network, same, both)
    np.testing.assert_array_equal(forward.feature, backward.feature)
    transformer = models.Transformer(options, size=50, transform=True)
    expected = models.apply(
        transformer, params["forward"], lambda net: net.readout(net.states(group))
    )
    np.testing.assert_allclose(forward.feature, expected.feature, atol=1e-5)


def test_post_norm_models_have_an_embedding_norm_unless_configured(
    make_options, make_group, make_params
):
    """GPT and XLNet are post-norm without one (the released codes)."""
    group = make_group()

    def has_norm(**changes):
        network = models.Transformer(make_options(**changes), size=50)
        params = make_params(network, lambda net: net.states(group))
        return "norm" in params["place"]

    assert has_norm(norm_placement="post") and not has_norm(norm_placement="pre")
    assert has_norm(embedding_norm="always")
    assert not has_norm(norm_placement="post", embedding_norm="never")


def test_truncated_initial_values_stay_within_two_deviations(make_options, make_group):
    group = make_group()
    options = make_options(width=64, feedforward=256, token_types=2, init="truncated")
    network = models.Transformer(options, size=500)
    made = models.unbox(
        jax.jit(lambda key: models.init(network, lambda net: net.states(group), key))(
            jax.random.key(0)
        )
    )
    drawn = [x for p, x in jax.tree.leaves_with_path(made) if jnp.std(x) > 0]
    assert len(drawn) == 3 + 6
    # The standard deviation of N(0, 1) truncated at 2 is 0.8796.
    for leaf in drawn:
        assert np.abs(leaf).max() <= 0.04
        np.testing.assert_allclose(np.std(leaf), 0.02 * 0.8796, rtol=0.15)
