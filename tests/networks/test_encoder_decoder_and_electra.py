"""Networks of two stacks: what each attends to, and which parameters they share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks.transformer import electra
from research.networks.transformer.electra import GeneratorDiscriminator
from research.networks.transformer.encoder_decoder import EncoderDecoder
from research.networks.transformer.one_stack import Transformer
from tests.testing.compiled_apply import apply


def dependence(run, rows, length):
    """[Q, L] bool: which of `run`'s states depend on the rows of tokens 0..L-1."""
    direction = np.random.default_rng(0).normal(size=rows.shape[1])
    grad = jax.jit(jax.jacrev(lambda rows: run(rows)[0] @ direction))(rows)
    return np.any(np.array(grad)[:, :length] != 0, axis=-1)


def test_a_decoder_attends_to_its_past_and_to_the_encoders_same_segment(
    make_options, make_group, make_params
):
    options = make_options(layers=2, position="t5", init="t5", bias=False)
    network = EncoderDecoder(options, size=50)
    encoder = make_group(1, 7, segment=np.array([[1, 1, 1, 2, 2, 2, 0]], np.int32))
    decoder = make_group(
        1, 6, causal=True, segment=np.array([[1, 1, 2, 2, 2, 0]], np.int32)
    )
    encoder["token"] = np.arange(7, dtype=np.int32)[None]
    decoder["token"] = np.arange(7, 13, dtype=np.int32)[None]
    decoder["rank"] = decoder["reach"] = decoder["position"] + 100

    def states(net):
        return net.states(decoder, encoded=net.encode(encoder))

    params = make_params(network, states)

    def run(rows):
        return networks.apply(network, params | {"token": {"embedding": rows}}, states)

    found = dependence(run, params["token"]["embedding"], 13)
    same = encoder["segment"] == decoder["segment"].T
    np.testing.assert_array_equal(found[:5, :7], same[:5])
    past = np.tril(decoder["segment"] == decoder["segment"].T)
    np.testing.assert_array_equal(found[:5, 7:], past[:5])
    assert found[5].tolist() == [False] * 12 + [True]  # padding depends on itself


def test_scored_states_of_a_decoder_are_the_gathered_ones(
    make_options, make_group, make_params, assert_close
):
    network = EncoderDecoder(make_options(layers=2), size=50)
    encoder, decoder = make_group(), make_group(length=6, causal=True, seed=1)
    scored = np.array([[5, 0], [2, 2]], np.int32)

    def states(net, in_last_block=False):
        encoded = net.encode(encoder)
        if in_last_block:
            return net.states(decoder, encoded=encoded, scored=scored)
        states = net.states(decoder, encoded=encoded)
        return jnp.take_along_axis(states, scored[..., None], axis=1)

    params = make_params(network, states)
    run = jax.jit(
        lambda p, in_last_block: networks.apply(
            network, p, lambda net: states(net, in_last_block)
        ),
        static_argnums=1,
    )
    assert_close(run(params, True), run(params, False))


def test_a_decoder_may_have_its_own_depth_and_token_table(make_options, make_group):
    options = make_options(layers=2, decoder_layers=3, shared_embeddings=False)
    network = EncoderDecoder(options, size=50)
    group = make_group()
    states = lambda net: net.readout(net.states(group, encoded=net.encode(group)))  # noqa: E731
    params = shapes_of(network, states)
    depths = [
        params[side]["blocks"]["feedforward"]["in"]["bias"].shape[0]
        for side in ("encoder", "decoder")
    ]
    assert depths == [2, 3]
    shapes = [params[name]["embedding"].shape for name in ("token", "decoder_token")]
    assert shapes[0] == shapes[1]
    depth = networks.layer_depths(params)
    assert depth["decoder_token"]["embedding"] == 0
    found = [
        depth[side]["blocks"]["feedforward"]["in"]["bias"].tolist()
        for side in ("encoder", "decoder")
    ]
    assert found == [[2, 3], [1, 2, 3]], "the last layer of each has the same rate"


@pytest.mark.parametrize("position", ["learned", "t5"])
def test_shared_stacks_are_two_stacks_of_the_same_parameters(
    position, make_options, make_group, make_params, assert_close
):
    two = make_options(layers=2, position=position)
    one = dataclasses.replace(two, shared_stacks=True)
    both_networks = [EncoderDecoder(options, size=50) for options in (one, two)]
    group = make_group()

    def states(net):
        return net.states(group, encoded=net.encode(group))

    params = make_params(both_networks[0], states)
    assert "encoder" not in params and "cross" in params["decoder"]["blocks"]
    own = ("attention", "attention_norm", "feedforward", "feedforward_norm")
    blocks = {name: params["decoder"]["blocks"][name] for name in own}
    both = params | {"encoder": params["decoder"] | {"blocks": blocks}}
    found, expected = (
        apply(network, each, states)
        for network, each in zip(both_networks, (params, both), strict=True)
    )
    assert_close(found, expected)


def test_a_decoder_reads_and_writes_its_own_token_table(
    make_options, make_group, make_params
):
    options = make_options(layers=1, shared_embeddings=False)
    network, group = EncoderDecoder(options, size=50), make_group()

    def outputs(net):
        encoded = net.encode(group)
        return encoded.states, net.readout(net.states(group, encoded=encoded))

    params = make_params(network, outputs)
    states, readout = apply(network, params, outputs)
    rows = params["decoder_token"]["embedding"]
    np.testing.assert_array_equal(readout.table, rows)
    changed = params | {"decoder_token": {"embedding": -rows}}
    same, other = apply(network, changed, outputs)
    np.testing.assert_array_equal(states, same)
    assert np.abs(readout.feature - other.feature).max() > 1e-3


def test_cross_attention_has_an_output_layer_for_each_token_type(
    make_options, make_group, make_params, assert_close
):
    """MASS's attention_setting v1 (MASS-unsupNMT's transformer.py, `out_lin`)."""
    options = make_options(layers=1, token_types=2, cross_output="token_type")
    network, encoder = EncoderDecoder(options, size=50), make_group(seed=1)
    row_type = np.array([[0], [1]], np.int32)
    group = make_group(token_type=np.tile(row_type, (1, 12)))
    states = lambda net: net.states(group, encoded=net.encode(encoder))  # noqa: E731
    params = make_params(network, states)
    found = apply(network, params, states)

    shared = dataclasses.replace(options, cross_output="shared")
    one_layer = EncoderDecoder(shared, size=50)
    cross = params["decoder"]["blocks"]["cross"]
    outs = [cross.pop("out_0"), cross.pop("out_1")]
    for row, out in enumerate(outs):
        cross["out"] = out
        expected = apply(one_layer, params, states)
        assert_close(found[row], expected[row])
        assert np.abs(found[1 - row] - expected[1 - row]).max() > 1e-2


def outputs_of_both(group):
    """The generator's readout and the discriminator's head "replaced"."""

    def fn(net):
        readout = net.generator.readout(net.generator.states(group))
        states = net.discriminator.states(group)
        return readout, net.discriminator.head("replaced", states)

    return fn


def shapes_of(network, fn):
    """The shapes of the parameters that `fn(net)` uses."""
    init = lambda: networks.init(network, fn, jax.random.key(0))  # noqa: E731
    return networks.unbox(jax.eval_shape(init))


@pytest.mark.parametrize(
    ("width", "heads", "fraction", "expected"),
    [(256, 4, 1 / 4, (64, 1)), (768, 12, 1 / 3, (256, 4)), (1024, 16, 1 / 4, (256, 4))],
)
def test_a_generator_is_as_deep_with_heads_of_the_published_width(
    width, heads, fraction, expected, make_options
):
    options = make_options(width=width, heads=heads, layers=12, embedding_width=128)
    options = dataclasses.replace(options, head_width=32)  # the discriminator's alone
    generator = electra.generator_options(options, fraction)
    assert (generator.width, generator.heads) == expected
    assert generator.key_width == 64
    assert generator.feedforward == 4 * generator.width
    assert (generator.layers, generator.table_width) == (12, 128)


@pytest.mark.parametrize(
    ("width", "fraction", "keys", "words", "legal"),
    [
        (768, 0.3, {}, "is 0.3, a width of 230, which 3 heads do not divide", 231),
        (1024, 1 / 3, {}, "0.333333, a width of 341, which 5 heads do not", 340),
        (
            *(768, 0.25, {"num_kv_heads": 6}),
            "0.25, a width of 192, where model.num_kv_heads is 6; it must divide model."
            "heads 3",
            384,
        ),
        (64, 0.3, {"position": "relative"}, "a width of 19, where .* not 19", 18),
        (64, 0.5, {"num_kv_heads": 6}, "must divide model.heads 1$", 0),
    ],
)
def test_a_size_that_no_generator_has_is_refused_with_the_nearest(
    width, fraction, keys, words, legal, make_options
):
    own = {"width": width, "heads": 12, "head_width": 8, "embedding_width": 32} | keys
    options = make_options(**own)
    with pytest.raises(UserError, match=f"objective.generator_size .*{words}") as error:
        electra.generator_options(options, fraction)
    assert legal == 0 or electra.generator_options(
        options, float(str(error.value).rpartition("set it to ")[2])
    ) == electra.generator_options(options, legal / width)


def test_generator_and_discriminator_share_only_embeddings(make_options, make_group):
    group = make_group()
    options = make_options(width=32, token_types=2, norm_placement="post")
    network = GeneratorDiscriminator(options, size=50, fraction=0.25)
    params = shapes_of(network, outputs_of_both(group))
    assert set(params) == {"generator", "discriminator"}
    assert set(params["generator"]) == {"stack", "output"}
    assert params["generator"]["stack"]["project"]["kernel"].shape == (32, 8)

    transformer = Transformer(options, size=50, heads={"replaced": 1})
    expected = shapes_of(
        transformer, lambda net: net.head("replaced", net.states(group))
    )
    assert jax.tree.structure(expected) == jax.tree.structure(params["discriminator"])


def test_generator_and_discriminator_both_train_the_shared_embeddings(
    make_options, make_group, make_params
):
    group = make_group()
    network = GeneratorDiscriminator(make_options(), size=50, fraction=0.5)
    params = make_params(network, outputs_of_both(group))

    def total(params, part):
        outputs = networks.apply(network, params, outputs_of_both(group))
        return jnp.sum(jnp.sin(outputs[part] if part else outputs[0].feature))

    for part in (0, 1):
        grads = jax.jit(jax.grad(total), static_argnums=1)(params, part)
        grad_rows = grads["discriminator"]["token"]["embedding"]
        is_read = np.isin(np.arange(len(grad_rows)), group["token"])
        assert (np.abs(grad_rows).sum(-1) > 0).tolist() == is_read.tolist()


def test_the_generators_readout_has_the_shared_table(
    make_options, make_group, make_params
):
    group = make_group()
    network = GeneratorDiscriminator(make_options(), size=50, fraction=0.5)
    params = make_params(network, outputs_of_both(group))
    readout, replaced = apply(network, params, outputs_of_both(group))
    np.testing.assert_array_equal(
        readout.table, params["discriminator"]["token"]["embedding"]
    )
    assert readout.feature.shape == (2, 12, 16) and replaced.shape == (2, 12, 1)


@pytest.mark.parametrize(
    "tie, own",
    [
        ("none", {"token", "embeddings", "stack", "output"}),
        ("token", {"embeddings", "stack", "output"}),
        ("embedding", {"stack", "output"}),
        ("all", {"output"}),
    ],
)
def test_tied_parameters_are_the_discriminators(make_options, make_group, tie, own):
    group, fraction = make_group(), 1.0 if tie == "all" else 0.5
    network = GeneratorDiscriminator(
        make_options(), size=50, fraction=fraction, tie=tie
    )
    params = shapes_of(network, outputs_of_both(group))
    assert set(params["generator"]) == own
    assert set(params["discriminator"]) == {
        "token",
        "embeddings",
        "stack",
        "head_replaced",
    }


def test_with_all_tied_both_have_the_same_states(make_options, make_group, make_params):
    group = make_group()
    network = GeneratorDiscriminator(make_options(), size=50, fraction=1.0, tie="all")
    params = make_params(network, outputs_of_both(group))
    states = networks.apply(
        network,
        params,
        lambda net: (net.generator.states(group), net.discriminator.states(group)),
    )
    np.testing.assert_array_equal(*states)


def test_a_discriminator_has_a_readout_too(make_options, make_group, make_params):
    group = make_group()
    network = GeneratorDiscriminator(
        make_options(), size=50, heads={"copy": 1}, transform=True, tie="none"
    )

    def fn(net):
        generated = net.generator.readout(net.generator.states(group))
        states = net.discriminator.states(group)
        copy = net.discriminator.head("copy", states)
        return generated, net.discriminator.readout(states), copy

    params = make_params(network, fn)
    generated, readout, copy = apply(network, params, fn)
    assert copy.shape == (2, 12, 1)
    rows = params["discriminator"]["token"]["embedding"]
    np.testing.assert_array_equal(readout.table, rows)
    assert not np.array_equal(generated.table, rows)
