"""The transformer: options change the computation, or its result, as documented."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.transformer import Network
from tests.testing import fast_key
from tests.testing.compiled_apply import apply

PUBLISHED = {
    "gpt": {"norm_placement": "post", "embedding_norm": "never"},
    "bert": {"norm_placement": "post", "token_types": 2, "init": "truncated"},
    "albert": {"norm_placement": "post", "embedding_width": 8, "shared_layers": True},
    "xlnet": {
        **{"norm_placement": "post", "embedding_norm": "never", "token_types": 3},
        **{"position": "relative", "token_type_encoding": "relative"},
    },
    "gpt2": {"init": "gpt2", "activation": "gelu_tanh"},
    "t5": {
        **{"init": "t5", "position": "t5", "norm": "rmsnorm", "bias": False},
        **{"activation": "relu"},
    },
    "t5v1.1": {
        **{"init": "t5", "position": "t5", "norm": "rmsnorm", "bias": False},
        **{"activation": "geglu", "tie_embeddings": False},
    },
}


def value_and_grads(network, params, group, **kw):
    """A loss of all states and the readout, and its gradient."""

    def loss(params):
        def fn(net):
            readout = net.readout(net.states(group, **kw))
            logits = readout.feature @ readout.table.T.astype(readout.feature.dtype)
            return jnp.sum(jnp.sin(logits.astype(jnp.float32)))

        return networks.apply(network, params, fn)

    return jax.jit(jax.value_and_grad(loss))(params)


def readout_of(group, **kw):
    """A function of a network: its readout of a group."""
    return lambda net: net.readout(net.states(group, **kw))


def initial_params(network, group):
    """The initial parameters that the readout of a group uses."""
    init = jax.jit(lambda key: networks.init(network, readout_of(group), key))
    return networks.unbox(init(fast_key.key(0)))


def test_scan_and_remat_change_no_number(
    make_options, make_group, make_params, assert_close
):
    group, unrolled = make_group(), {"scan_unroll": 3}
    reference = Transformer(make_options(layers=3), size=50)
    params = make_params(reference, readout_of(group))
    expected = value_and_grads(reference, params, group)
    remat = {"remat": "dots"}, unrolled | {"remat": "full"}
    for changes in (unrolled, {"scan_unroll": 2}, *remat):
        other = Transformer(make_options(layers=3, **changes), size=50)
        assert_close(value_and_grads(other, params, group), expected)


def test_remat_saves_memory(make_options, make_group):
    group = make_group(4, 32)

    def temporary_bytes(remat):
        options = make_options(layers=6, width=32, feedforward=128, remat=remat)
        network = Transformer(options, size=50)
        params = jax.eval_shape(
            lambda: networks.unbox(networks.init(network, states, jax.random.key(0)))
        )
        step = jax.jit(jax.grad(lambda p: jnp.sum(networks.apply(network, p, states))))
        return step.lower(params).compile().memory_analysis().temp_size_in_bytes

    def states(net):
        return net.states(group)

    full, dots, none = (temporary_bytes(remat) for remat in ("full", "dots", "none"))
    assert full < 0.7 * dots < 0.7**2 * none


def test_shared_layers_have_one_blocks_parameters(make_options, make_group):
    group = make_group()

    def count(**changes):
        network = Transformer(make_options(**changes), size=50)
        params = jax.eval_shape(lambda: initial_params(network, group))
        return sum(leaf.size for leaf in jax.tree.leaves(params))

    block = (count(layers=5) - count(layers=2)) / 3
    shared = {"shared_layers": True}
    assert count(layers=5, **shared) == count(layers=2, **shared)
    assert count(layers=5, **shared) == count(layers=5) - 4 * block
    assert count(embedding_width=4) < count(embedding_width=0)


def test_dropout_is_on_if_and_only_if_its_key_is_given(
    make_options, make_group, make_params
):
    group = make_group()
    network = Transformer(make_options(dropout=0.3), size=50)

    states = lambda net: net.states(group)  # noqa: E731
    params = make_params(network, states)
    off = apply(network, params, states)
    same = Transformer(make_options(), size=50)
    np.testing.assert_array_equal(off, apply(same, params, states))
    run = jax.jit(lambda key: networks.apply(network, params, states, key))
    first, again, other = (run(jax.random.key(n)) for n in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - off).max() > 0.1 and np.abs(first - other).max() > 0.1


def test_each_place_of_dropout_has_a_rate_of_its_own(
    make_options, make_group, make_params
):
    group, layers = make_group(), {"layers": 1, "position": "relative"}
    states = lambda net: net.states(group)  # noqa: E731
    off = {f"{place}_dropout": 0.0 for place in Network.dropout_places}
    network = Transformer(make_options(**layers, **off), size=50)
    params = make_params(network, states)
    expected, key = apply(network, params, states), jax.random.key(1)
    for place in Network.dropout_places:
        rate = 0.999 if place == "layer" else 0.5  # one draw for all
        options = make_options(**layers, **off | {f"{place}_dropout": rate})
        network = Transformer(options, size=50)
        dropped = apply(network, params, states, key)
        changed = np.mean(np.array(dropped) != np.array(expected))
        zeros = np.mean(np.array(dropped) == 0)
        if place.startswith(("head", "readout")):
            assert changed == 0
        elif place == "output":
            assert changed == 1 and abs(zeros - 0.5) < 0.15
        else:
            assert changed > 0.5 and zeros == 0
    network = Transformer(make_options(**layers, **off | {"readout_dropout": 0.5}), 50)
    feature = apply(network, params, readout_of(group), key).feature
    assert abs(np.mean(np.array(feature) == 0) - 0.5) < 0.15


def test_embeddings_may_be_scaled_by_the_root_of_the_width(
    make_options, make_group, make_params
):
    """Transformer-XL's `emb_scale`; the table of the softmax is not scaled."""
    group, options = make_group(), {"position": "none"}
    plain = Transformer(make_options(**options), size=50)
    params = make_params(plain, readout_of(group))
    options["scale_embeddings"] = True
    scaled = Transformer(make_options(**options), size=50)
    embed = lambda net: net.embeddings()[0](group["token"])  # noqa: E731
    expected = 4 * np.array(networks.apply(plain, params, embed))
    np.testing.assert_allclose(networks.apply(scaled, params, embed), expected)
    readout = apply(scaled, params, readout_of(group))
    np.testing.assert_array_equal(readout.table, params["token"]["embedding"])


LONG = pytest.param("gpt", marks=pytest.mark.long)  # XLNet has its initial values


@pytest.mark.parametrize("name", [LONG, *[*PUBLISHED][1:]])
def test_an_untrained_model_has_the_loss_of_a_uniform_prediction(
    name, make_options, make_group
):
    """The loss is log V; T5's, with logits of N(0, 1), is half a nat above.

    With T5's tied embeddings, the input token itself has a larger logit.
    """
    size, widths = 500, {"width": 64, "feedforward": 128}
    group = make_group(4, 24, size=size)
    network = Transformer(make_options(**widths, **PUBLISHED[name]), size=size)

    def loss(net):
        readout = net.readout(net.states(group))
        logits = readout.feature @ readout.table.T + readout.bias[None, None]
        return jnp.mean(jax.nn.logsumexp(logits, -1)[..., None] - logits[..., 5:size])

    value = jax.jit(
        lambda key: networks.apply(network, networks.init(network, loss, key), loss)
    )(fast_key.key(0))
    excess = {"t5": 0.8, "t5v1.1": 0.5}.get(name, 0.05)
    assert abs(value - np.log(size) - excess) < 0.1


LEARNED = pytest.param("learned", marks=pytest.mark.long)  # no part of attention


@pytest.mark.parametrize("position", [LEARNED, "t5", "rotary", "relative"])
def test_the_bfloat16_gradient_is_close_to_the_float32_one(
    position, make_options, make_group, make_params, assert_close
):
    group = make_group()
    options = make_options(position=position)
    exact = Transformer(options, size=50)
    params = make_params(exact, readout_of(group))
    rounded = Transformer(dataclasses.replace(options, dtype="bfloat16"), size=50)

    def gradient(network):
        def loss(params):
            states = networks.apply(network, params, lambda net: net.states(group))
            return jnp.mean(states.astype(jnp.float32) ** 2 * np.arange(16)[None, None])

        return jax.jit(jax.grad(loss))(params)

    assert_close(gradient(rounded), gradient(exact), 0.1)


def test_a_readout_hides_the_rows_that_pad_the_vocabulary(
    make_options, make_group, make_params
):
    group = make_group()
    network = Transformer(make_options(), size=200, transform=True)
    params = make_params(network, readout_of(group))
    readout = apply(network, params, readout_of(group))
    assert (readout.table.shape, readout.size) == ((256, 16), 200)
    assert (np.array(readout.bias) < -1e8).nonzero()[0].tolist() == [*range(200, 256)]


def test_a_network_has_the_parameters_that_its_loss_uses(
    make_options, make_group, make_params
):
    group = make_group()
    heads = {"label": 3, "other": 2}
    network = Transformer(make_options(), size=50, transform=True, heads=heads)

    def names(fn):
        return set(
            jax.eval_shape(lambda: networks.init(network, fn, jax.random.key(0)))
        )

    def label(net):
        return net.head("label", net.states(group)[:, 0])

    assert names(label) == {"token", "embeddings", "stack", "head_label"}
    assert names(readout_of(group)) == {"token", "embeddings", "stack", "output"}
    params = make_params(network, label)
    assert apply(network, params, label).shape == (2, 3)


def test_every_dimension_of_a_parameter_has_a_logical_axis(make_options, make_group):
    group = make_group()
    for changes in PUBLISHED.values():
        network = Transformer(make_options(**changes), size=50, transform=True)
        made = jax.eval_shape(
            lambda n=network: networks.init(n, readout_of(group), jax.random.key(0))
        )
        axes, shapes = networks.logical_axes(made), networks.unbox(made)
        known = {None, "layers", "vocab", "embed", "heads", "feedforward"}
        leaves = jax.tree.leaves(axes), jax.tree.leaves(shapes)
        for names, leaf in zip(*leaves, strict=True):
            assert len(names) == leaf.ndim and set(names) <= known
