"""Laws of the networks with two stacks: what each reads, and what they share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models
from research.models import electra


def dependence(run, rows, length):
    """[Q, L] bool: which of `run`'s states depend on the rows of tokens 0..L-1."""
    mix = np.random.default_rng(0).normal(size=rows.shape[1])
    slope = jax.jit(jax.jacrev(lambda rows: run(rows)[0] @ mix))(rows)
    return np.any(np.array(slope)[:, :length] != 0, axis=-1)


def test_a_decoder_sees_its_past_and_the_encoders_same_segment(
    make_options, make_group, make_params
):
    options = make_options(layers=2, position="t5", init="t5", bias=False)
    network = models.EncoderDecoder(options, size=50)
    encoder = make_group(1, 7, segment=np.array([[1, 1, 1, 2, 2, 2, 0]], np.int32))
    decoder = make_group(
        1, 6, causal=True, segment=np.array([[1, 1, 2, 2, 2, 0]], np.int32)
    )
    encoder["token"] = np.arange(7, dtype=np.int32)[None]
    decoder["token"] = np.arange(7, 13, dtype=np.int32)[None]
    decoder["rank"] = decoder["reach"] = decoder["position"] + 100

    def states(net):
        return net.states(decoder, net.encode(encoder))

    params = make_params(network, states)

    def run(rows):
        here = params | {"token": {"rows": rows}}
        return models.apply(network, here, states)

    found = dependence(run, params["token"]["rows"], 13)
    same = encoder["segment"] == decoder["segment"].T
    np.testing.assert_array_equal(found[:5, :7], same[:5])
    past = np.tril(decoder["segment"] == decoder["segment"].T)
    np.testing.assert_array_equal(found[:5, 7:], past[:5])
    assert found[5].tolist() == [False] * 12 + [True]  # padding sees itself alone


def test_scored_places_of_a_decoder_are_the_gathered_ones(
    make_options, make_group, make_params, assert_close
):
    network = models.EncoderDecoder(make_options(layers=2), size=50)
    encoder, decoder = make_group(), make_group(length=6, causal=True, seed=1)
    scored = np.array([[5, 0], [2, 2]], np.int32)

    def states(net, early=False):
        memory = net.encode(encoder)
        if early:
            return net.states(decoder, memory, scored=scored)
        whole = net.states(decoder, memory)
        return jnp.take_along_axis(whole, scored[..., None], axis=1)

    params = make_params(network, states)
    run = jax.jit(
        lambda p, early: models.apply(network, p, lambda net: states(net, early)),
        static_argnums=1,
    )
    assert_close(run(params, True), run(params, False))


def pair_fn(group):
    def fn(net):
        made = net.generator.readout(net.generator.states(group))
        told = net.discriminator.head("replaced", net.discriminator.states(group))
        return made, told

    return fn


@pytest.mark.parametrize(
    ("width", "heads", "fraction", "expected"),
    [(256, 4, 1 / 4, (64, 1)), (768, 12, 1 / 3, (256, 4)), (1024, 16, 1 / 4, (256, 4))],
)
def test_a_generator_is_as_deep_with_heads_of_the_published_width(
    width, heads, fraction, expected, make_options
):
    options = make_options(width=width, heads=heads, layers=12, embedding_width=128)
    small = electra.smaller(options, fraction)
    assert (small.width, small.heads) == expected
    assert small.feedforward == 4 * small.width
    assert (small.layers, small.table_width) == (12, 128)


def test_a_pair_shares_its_tables_and_nothing_else(make_options, make_group):
    group, options = (
        make_group(),
        make_options(width=32, token_types=2, norm_placement="post"),
    )
    network = models.Pair(options, size=50, fraction=0.25)
    made = jax.eval_shape(
        lambda: models.init(network, pair_fn(group), jax.random.key(0))
    )
    params = models.unbox(made)
    assert set(params) == {"generator", "discriminator"}
    assert set(params["generator"]) == {"stack", "output"}
    assert params["generator"]["stack"]["project"]["kernel"].shape == (32, 8)

    alone = models.Transformer(options, size=50, heads={"replaced": 1})
    whole = models.unbox(
        jax.eval_shape(
            lambda: models.init(
                alone,
                lambda net: net.head("replaced", net.states(group)),
                jax.random.key(0),
            )
        )
    )
    assert jax.tree.structure(whole) == jax.tree.structure(params["discriminator"])


def test_both_of_a_pair_read_and_train_the_shared_tables(
    make_options, make_group, make_params
):
    group = make_group()
    network = models.Pair(make_options(), size=50, fraction=0.5)
    params = make_params(network, pair_fn(group))

    def total(params, part):
        outputs = models.apply(network, params, pair_fn(group))
        return jnp.sum(jnp.sin(outputs[part] if part else outputs[0].feature))

    for part in (0, 1):
        grads = jax.jit(jax.grad(total), static_argnums=1)(params, part)
        rows = grads["discriminator"]["token"]["rows"]
        seen = np.isin(np.arange(len(rows)), group["token"])
        assert (np.abs(rows).sum(-1) > 0).tolist() == seen.tolist()


def test_a_readouts_table_is_the_shared_one(make_options, make_group, make_params):
    group = make_group()
    network = models.Pair(make_options(), size=50, fraction=0.5)
    params = make_params(network, pair_fn(group))
    readout, told = models.apply(network, params, pair_fn(group))
    np.testing.assert_array_equal(
        readout.table, params["discriminator"]["token"]["rows"]
    )
    assert readout.feature.shape == (2, 12, 16) and told.shape == (2, 12, 1)


@pytest.mark.parametrize(
    "tie, own",
    [
        ("none", {"token", "place", "stack", "output"}),
        ("token", {"place", "stack", "output"}),
        ("embedding_width", {"stack", "output"}),
        ("all", {"output"}),
    ],
)
def test_what_a_pair_ties_is_the_discriminators(make_options, make_group, tie, own):
    group, fraction = make_group(), 1.0 if tie == "all" else 0.5
    network = models.Pair(make_options(), size=50, fraction=fraction, tie=tie)
    made = jax.eval_shape(
        lambda: models.init(network, pair_fn(group), jax.random.key(0))
    )
    params = models.unbox(made)
    assert set(params["generator"]) == own
    assert set(params["discriminator"]) == {
        "token",
        "place",
        "stack",
        "answer_replaced",
    }


def test_a_pair_that_ties_all_is_one_stack(make_options, make_group, make_params):
    group = make_group()
    network = models.Pair(make_options(), size=50, fraction=1.0, tie="all")
    params = make_params(network, pair_fn(group))
    same = models.apply(
        network,
        params,
        lambda net: (net.generator.states(group), net.discriminator.states(group)),
    )
    np.testing.assert_array_equal(*same)


def test_a_discriminator_may_read_out_tokens(make_options, make_group, make_params):
    group = make_group()
    network = models.Pair(
        make_options(), size=50, heads={"copy": 1}, transform=True, tie="none"
    )

    def fn(net):
        made = net.generator.readout(net.generator.states(group))
        states = net.discriminator.states(group)
        told = net.discriminator.head("copy", states)
        return made, net.discriminator.readout(states), told

    params = make_params(network, fn)
    made, readout, told = models.apply(network, params, fn)
    assert told.shape == (2, 12, 1)
    rows = params["discriminator"]["token"]["rows"]
    np.testing.assert_array_equal(readout.table, rows)
    assert not np.array_equal(made.table, rows)
