"""Relative terms of attention equal the published formulas, for any positions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from research import networks
from research.networks.shared.dense_attention import (
    AttentionInputs,
    additive_mask,
)
from research.networks.shared.positions import sinusoids
from research.networks.transformer.attention import Attention, prepare
from research.networks.transformer.blocks import Stack
from research.networks.transformer.one_stack import Transformer
from tests.testing.compiled_apply import apply

# B batch, L queries, M keys, H heads, K head width, D width, INNER width of all heads

B, L, M, HEADS, WIDTH, INNER = 2, 7, 5, 2, 16, 12


def make_case(make_options, **changes):
    """Options, states, a group with arbitrary positions, a mask and parameters."""
    options = make_options(
        position="relative",
        token_type_encoding="relative",
        token_types=3,
        head_width=INNER // HEADS,
        **changes,
    )
    random = np.random.default_rng(0)
    states = random.normal(size=(B, L, WIDTH)).astype(np.float32)
    group = {
        "position": random.integers(-900, 900, (B, L), dtype=np.int32),
        "token_type": random.integers(0, 3, (B, L), dtype=np.int32),
    }
    mask = random.random((B, L, M)) < 0.7
    mask[0, 3] = False
    params = {"relative": {"kernel": (WIDTH, INNER), "segment": (2, INNER)}}
    for name in ("content_bias", "position_bias", "segment_bias"):
        params["relative"][name] = (INNER,)
    for name in ("query", "key", "value"):
        params[name] = {"kernel": (WIDTH, INNER)}
    params["out"] = {"kernel": (INNER, WIDTH)}
    draw = lambda shape: random.normal(0, 0.4, shape).astype(np.float32)  # noqa: E731
    params = jax.tree.map(draw, params, is_leaf=lambda x: isinstance(x, tuple))
    return options, states, group, mask, params


def prepared_inputs(options, group, mask, num_keys, num_mems=0):
    """What attention reads of a group, but with an arbitrary mask."""
    query = {"segment": np.ones_like(group["position"])} | group
    key = {name: array[:, :num_keys] for name, array in query.items()}
    mems_segment = np.ones((len(mask), num_mems), np.int32)
    inputs = AttentionInputs(query, key, mems_segment=mems_segment)
    stack = Stack(options, "full")
    prepared = nn.apply(lambda stack: prepare(stack, options, inputs), stack)({})
    return prepared._replace(mask=additive_mask(mask))


def ours(options, params, states, group, mask):
    return (
        Attention(options)
        .apply(
            {"params": params},
            states,
            prepared_inputs(options, group, mask, M),
            source_BMD=states[:, :M],
        )
        .states
    )


def published(params, states, group, mask):
    """(q + u) k + (q + v) W r + (q + b) s, with an r for each pair of positions."""
    heads = lambda x: x.reshape(*x.shape[:-1], HEADS, -1)  # noqa: E731
    own = params["relative"]
    query, key, value = (
        heads(x @ params[name]["kernel"])
        for x, name in (
            (states, "query"),
            (states[:, :M], "key"),
            (states[:, :M], "value"),
        )
    )
    u, v, b = (
        heads(own[f"{name}_bias"])[None, None]
        for name in ("content", "position", "segment")
    )
    position, token_type = group["position"], group["token_type"]
    distance_BLM = position[:, :, None] - position[:, None, :M]
    wave = sinusoids(distance_BLM.reshape(B, -1), WIDTH).reshape(B, L, M, WIDTH)
    relative = heads(wave @ own["kernel"])
    is_other = token_type[:, :, None] != token_type[:, None, :M]
    segment = heads(own["segment"])[is_other.astype(np.int32)]
    logits = (
        jnp.einsum("blhk,bmhk->bhlm", query + u, key)
        + jnp.einsum("blhk,blmhk->bhlm", query + v, relative)
        + jnp.einsum("blhk,blmhk->bhlm", query + b, segment)
    ) * key.shape[-1] ** -0.5
    p = jnp.where(mask[:, None], jnp.exp(logits), 0)
    p = p / jnp.maximum(p.sum(-1, keepdims=True), 1e-30)
    out = jnp.einsum("bhlm,bmhk->blhk", p, value).reshape(B, L, -1)
    return out @ params["out"]["kernel"]


def test_it_is_the_published_formula_in_value_and_gradient(make_options, assert_close):
    options, states, group, mask, params = make_case(make_options)
    grad = np.random.default_rng(1).normal(size=states.shape).astype(np.float32)

    def value_and_grad(fn):
        def total(params, states):
            out = fn(params, states, group, mask)
            return jnp.sum(out * grad), out

        return jax.jit(jax.value_and_grad(total, (0, 1), has_aux=True))(params, states)

    expected = value_and_grad(published)
    assert all(np.abs(g).max() > 1e-3 for g in jax.tree.leaves(expected[1]))
    assert_close(value_and_grad(lambda *x: ours(options, *x)), expected)


def test_biases_that_all_layers_share_are_parameters_of_the_stack(
    make_options, make_group, make_params, assert_close
):
    """Transformer-XL's u and v (released mem_transformer.py: r_w_bias, r_r_bias)."""
    group, relative = make_group(token_type=np.eye(2, 12, dtype=np.int32)), "relative"
    options = make_options(
        position=relative, token_type_encoding=relative, token_types=2
    )
    own = Transformer(options, size=50)
    shared = dataclasses.replace(options, shared_relative_biases=True)
    network = Transformer(shared, size=50)
    states = lambda net: net.states(group)  # noqa: E731
    params = make_params(network, states)
    names = {"content_bias", "position_bias", "segment_bias"}
    stack = params["stack"]
    assert names < set(stack)
    assert not names & set(stack["blocks"]["attention"][relative])
    biases = {name: np.stack([stack[name]] * 2) for name in names}
    copies = jax.tree.map(lambda leaf: leaf, params)
    copies["stack"]["blocks"]["attention"][relative] |= biases
    assert_close(apply(network, params, states), apply(own, copies, states))


def test_with_dropout_the_mean_is_the_result_without(make_options):
    """Dropout of probabilities takes another path through dense attention."""
    options, states, group, mask, params = make_case(make_options, dropout=0.2)

    @jax.jit
    @jax.vmap
    def run(key):
        return (
            Attention(options)
            .apply(
                {"params": params},
                states,
                prepared_inputs(options, group, mask, M),
                source_BMD=states[:, :M],
                rngs={"dropout": key},
            )
            .states
        )

    samples = np.array(run(jax.random.split(jax.random.key(0), 1000)))
    without = jax.jit(lambda params: ours(options, params, states, group, mask))
    exact = np.array(without(params))
    error = samples.std(axis=0) / 1000**0.5
    assert samples.std() > 0.1
    assert (np.abs(samples.mean(axis=0) - exact) <= 6 * error + 1e-6).all()


def shifted(params, states, num_mems):
    """Transformer-XL's algorithm: logits by distance, each row of which is shifted.

    states [M, D]: the first `num_mems` of them serve as keys only.
    """
    heads = lambda x: x.reshape(len(x), HEADS, -1)  # noqa: E731
    own, num_keys = params["relative"], len(states)
    num_queries = num_keys - num_mems
    query = heads(states[num_mems:] @ params["query"]["kernel"])
    key, value = (heads(states @ params[name]["kernel"]) for name in ("key", "value"))
    distance = np.arange(num_keys - 1, -1, -1)
    relative = heads(np.array(sinusoids(distance[None], WIDTH))[0] @ own["kernel"])
    u, v = (
        own[f"{name}_bias"].reshape(1, HEADS, -1) for name in ("content", "position")
    )
    by_distance = np.einsum("lhk,mhk->hlm", query + v, relative)
    padded = np.pad(by_distance, ((0, 0), (0, 0), (1, 0)))
    padded = padded.reshape(HEADS, num_keys + 1, num_queries)[:, 1:]
    content = np.einsum("lhk,mhk->hlm", query + u, key)
    logits = (content + padded.reshape(HEADS, -1, num_keys)) * key.shape[-1] ** -0.5
    past = np.arange(num_keys)[None] <= np.arange(num_mems, num_keys)[:, None]
    p = np.exp(logits) * past
    out = np.einsum("hlm,mhk->lhk", p / p.sum(-1, keepdims=True), value)
    return out.reshape(num_queries, -1) @ params["out"]["kernel"]


@pytest.mark.parametrize("backwards", [False, True])
def test_with_mems_it_equals_the_shift_of_rows(backwards, make_options):
    """In a row with decreasing positions the distances have the other sign."""
    _, states, _, _, params = make_case(make_options)
    options = make_options(position="relative", head_width=INNER // HEADS)
    row, num_mems = states[:1], 3
    step = -1 if backwards else 1
    group = {"position": 40 + step * np.arange(L - num_mems, dtype=np.int32)[None]}
    past = np.arange(L)[None] <= np.arange(num_mems, L)[:, None]

    @jax.jit
    def run(params):
        inputs = prepared_inputs(options, group, past[None], None, num_mems)
        return (
            Attention(options)
            .apply({"params": params}, row[:, num_mems:], inputs, source_BMD=row)
            .states
        )

    out = run(params)
    expected = shifted(params, row[0], num_mems)
    if backwards:  # the sines have the other sign
        kernel = params["relative"]["kernel"] * np.repeat([-1, 1], WIDTH // 2)[:, None]
        other = params | {"relative": params["relative"] | {"kernel": kernel}}
        assert np.abs(shifted(other, row[0], num_mems) - expected).max() > 1e-3
        expected = shifted(other, row[0], num_mems)
    np.testing.assert_allclose(out[0], expected, atol=2e-5)


def states_of(network, params, group):
    return jax.jit(
        lambda group: networks.apply(network, params, lambda net: net.states(group))
    )


def test_only_distances_and_equality_of_token_types_matter(
    make_options, make_group, make_params
):
    random = np.random.default_rng(0)
    group = make_group(token_type=random.integers(0, 3, (2, 12), dtype=np.int32))
    options = make_options(
        position="relative", token_type_encoding="relative", token_types=3
    )
    network = Transformer(options, size=50)
    params = make_params(network, lambda net: net.states(group))
    assert "token_type" not in params.get("embeddings", {})
    run = states_of(network, params, group)
    first = run(group)
    moved = group | {"position": group["position"] + 10**9}
    np.testing.assert_array_equal(run(moved), first)
    renamed = group | {"token_type": np.array([2, 0, 1], np.int32)[group["token_type"]]}
    np.testing.assert_allclose(run(renamed), first, atol=1e-5)
    for changed in (
        {"position": -group["position"]},
        {"token_type": 0 * group["token_type"]},
    ):
        assert np.abs(run(group | changed) - first).max() > 1e-2


def test_its_layers_have_no_other_biases(make_options, make_group):
    group = make_group()
    options = make_options(position="relative")
    network = Transformer(options, size=50)
    made = jax.eval_shape(
        lambda: networks.init(network, lambda n: n.states(group), jax.random.key(0))
    )
    attention = networks.unbox(made)["stack"]["blocks"]["attention"]
    assert {name for name in attention if "bias" in attention[name]} == set()
    assert set(attention["relative"]) == {"kernel", "content_bias", "position_bias"}
