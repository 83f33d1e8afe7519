"""Laws of relative attention: the published formula, whatever the positions are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import models
from research.models.layers.attention import Attention, sight
from research.models.layers.positions import sinusoids
from research.models.layers.relative import places

# B batch, L queries, M keys, H heads, K head width, D width

B, L, M, HEADS, WIDTH = 2, 7, 5, 2, 16


def setting(make_options, **changes):
    """Options, states, a group with arbitrary positions, a mask and parameters."""
    options = make_options(
        position="relative", token_type_encoding="relative", token_types=3, **changes
    )
    random = np.random.default_rng(0)
    states = random.normal(size=(B, L, WIDTH)).astype(np.float32)
    group = {
        "position": random.integers(-900, 900, (B, L), dtype=np.int32),
        "token_type": random.integers(0, 3, (B, L), dtype=np.int32),
    }
    mask = random.random((B, L, M)) < 0.7
    mask[0, 3] = False
    params = {"relative": {"kernel": (WIDTH, WIDTH), "segment": (2, WIDTH)}}
    for name in ("content_bias", "position_bias", "segment_bias"):
        params["relative"][name] = (WIDTH,)
    for name in ("query", "key", "value", "out"):
        params[name] = {"kernel": (WIDTH, WIDTH)}
    draw = lambda shape: random.normal(0, 0.4, shape).astype(np.float32)  # noqa: E731
    params = jax.tree.map(draw, params, is_leaf=lambda x: isinstance(x, tuple))
    return options, states, group, mask, params


def ours(options, params, states, group, mask):
    at = places(options, group, M)
    return Attention(options).apply(
        {"params": params}, states, sight(mask), source=states[:, :M], places=at
    )


def published(params, states, group, mask):
    """(q + u) k + (q + v) W r + (q + b) s, with an r for each pair of places."""
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
    position, kind = group["position"], group["token_type"]
    distance_BLM = position[:, :, None] - position[:, None, :M]
    wave = sinusoids(distance_BLM.reshape(B, -1), WIDTH).reshape(B, L, M, WIDTH)
    far = heads(wave @ own["kernel"])
    other = (kind[:, :, None] != kind[:, None, :M]).astype(np.int32)
    score = (
        jnp.einsum("blhk,bmhk->bhlm", query + u, key)
        + jnp.einsum("blhk,blmhk->bhlm", query + v, far)
        + jnp.einsum("blhk,blmhk->bhlm", query + b, heads(own["segment"])[other])
    ) * key.shape[-1] ** -0.5
    p = jnp.where(mask[:, None], jnp.exp(score), 0)
    p = p / jnp.maximum(p.sum(-1, keepdims=True), 1e-30)
    mixed = jnp.einsum("bhlm,bmhk->blhk", p, value).reshape(B, L, -1)
    return mixed @ params["out"]["kernel"]


def test_it_is_the_published_formula_in_value_and_gradient(make_options, assert_close):
    options, states, group, mask, params = setting(make_options)
    slope = np.random.default_rng(1).normal(size=states.shape).astype(np.float32)

    def graded(fn):
        def total(params, states):
            mixed = fn(params, states, group, mask)
            return jnp.sum(mixed * slope), mixed

        return jax.jit(jax.value_and_grad(total, (0, 1), has_aux=True))(params, states)

    expected = graded(published)
    assert all(np.abs(g).max() > 1e-3 for g in jax.tree.leaves(expected[1]))
    assert_close(graded(lambda *x: ours(options, *x)), expected)


def test_with_dropout_it_drops_probabilities(make_options):
    """The other path of attention: on average it is the one without."""
    options, states, group, mask, params = setting(make_options, dropout=0.2)
    at = places(options, group, M)

    @jax.jit
    @jax.vmap
    def run(key):
        return Attention(options).apply(
            {"params": params},
            states,
            sight(mask),
            source=states[:, :M],
            places=at,
            rngs={"dropout": key},
        )

    many = np.array(run(jax.random.split(jax.random.key(0), 1000)))
    exact = np.array(ours(options, params, states, group, mask))
    error = many.std(axis=0) / 1000**0.5
    assert many.std() > 0.1
    assert (np.abs(many.mean(axis=0) - exact) <= 6 * error + 1e-6).all()


def shifted(params, states, remembered):
    """Transformer-XL's way: logits by distance, of which each row is then shifted.

    states [M, D]: the first `remembered` of them serve as keys alone.
    """
    heads = lambda x: x.reshape(len(x), HEADS, -1)  # noqa: E731
    own, count = params["relative"], len(states)
    num_queries = count - remembered
    query = heads(states[remembered:] @ params["query"]["kernel"])
    key, value = (heads(states @ params[name]["kernel"]) for name in ("key", "value"))
    distance = np.arange(count - 1, -1, -1)
    far = heads(np.array(sinusoids(distance[None], WIDTH))[0] @ own["kernel"])
    u, v = (
        own[f"{name}_bias"].reshape(1, HEADS, -1) for name in ("content", "position")
    )
    by_distance = np.einsum("lhk,mhk->hlm", query + v, far)
    padded = np.pad(by_distance, ((0, 0), (0, 0), (1, 0)))
    padded = padded.reshape(HEADS, count + 1, num_queries)[:, 1:]
    score = np.einsum("lhk,mhk->hlm", query + u, key) + padded.reshape(HEADS, -1, count)
    score = score * key.shape[-1] ** -0.5
    past = np.arange(count)[None] <= np.arange(remembered, count)[:, None]
    p = np.exp(score) * past
    mixed = np.einsum("hlm,mhk->lhk", p / p.sum(-1, keepdims=True), value)
    return mixed.reshape(num_queries, -1) @ params["out"]["kernel"]


@pytest.mark.parametrize("backwards", [False, True])
def test_of_a_text_and_its_past_it_is_the_shift_of_rows(backwards, make_options):
    """In a row whose positions fall the distances have the other sign."""
    _, states, _, _, params = setting(make_options)
    options, row, remembered = make_options(position="relative"), states[:1], 3
    step = -1 if backwards else 1
    group = {"position": 40 + step * np.arange(L - remembered, dtype=np.int32)[None]}
    past = np.arange(L)[None] <= np.arange(remembered, L)[:, None]
    mixed = Attention(options).apply(
        {"params": params},
        row[:, remembered:],
        sight(past[None]),
        source=row,
        places=places(options, group, None, remembered),
    )
    expected = shifted(params, row[0], remembered)
    if backwards:  # sines of the other sign
        kernel = params["relative"]["kernel"] * np.repeat([-1, 1], WIDTH // 2)[:, None]
        other = params | {"relative": params["relative"] | {"kernel": kernel}}
        assert np.abs(shifted(other, row[0], remembered) - expected).max() > 1e-3
        expected = shifted(other, row[0], remembered)
    np.testing.assert_allclose(mixed[0], expected, atol=2e-5)


def states_of(network, params, group):
    return jax.jit(
        lambda group: models.apply(network, params, lambda net: net.states(group))
    )


def test_only_distances_matter_and_only_whether_kinds_are_the_same(
    make_options, make_group, make_params
):
    random = np.random.default_rng(0)
    group = make_group(kind=random.integers(0, 3, (2, 12), dtype=np.int32))
    options = make_options(
        position="relative", token_type_encoding="relative", token_types=3
    )
    network = models.Transformer(options, size=50)
    params = make_params(network, lambda net: net.states(group))
    assert "token_type" not in params.get("place", {})
    run = states_of(network, params, group)
    first = run(group)
    far = group | {"position": group["position"] + 10**9}
    np.testing.assert_array_equal(run(far), first)
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
    network = models.Transformer(options, size=50)
    made = jax.eval_shape(
        lambda: models.init(network, lambda n: n.states(group), jax.random.key(0))
    )
    attention = models.unbox(made)["stack"]["blocks"]["attention"]
    assert {name for name in attention if "bias" in attention[name]} == set()
    assert set(attention["relative"]) == {"kernel", "content_bias", "position_bias"}
