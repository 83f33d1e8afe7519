"""Attention: a query uses exactly the keys that it attends to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract import batch
from research.networks.shared import dense_attention
from research.networks.transformer import kernels
from research.networks.transformer.one_stack import Transformer
from tests.testing.compiled_apply import apply
from tests.testing.interval_patterns import PATTERNS, draw_rows


def states_and_grads(network, params, group, grad):
    """States, and the gradient of their product with `grad` by parameters."""

    def total(params):
        states = networks.apply(network, params, lambda net: net.states(group))
        return jnp.sum(states * grad), states

    (_, states), grads = jax.jit(jax.value_and_grad(total, has_aux=True))(params)
    return states, grads


def dependence(network, params, group, **kw):
    """[L, L] bool: whether a query's state in row 0 depends on a position's token.

    Tokens are distinct, so that each row of the table belongs to one position.
    """
    length = group["token"].shape[1]
    group = group | {"token": np.tile(np.arange(length), (len(group["token"]), 1))}
    width = params["token"]["embedding"].shape[1]
    direction = np.random.default_rng(0).normal(size=width)

    def states(rows):
        here = params | {"token": {"embedding": rows}}
        states = networks.apply(network, here, lambda net: net.states(group, **kw))
        return states[0] @ direction

    grad = jax.jit(jax.jacrev(states))(params["token"]["embedding"])
    return np.any(np.array(grad)[:, :length] != 0, axis=-1)


def random_pattern(seed, length=10, intervals=()):
    """Segments with padding, and arbitrary ranks and numbers of queries."""
    random = np.random.default_rng(seed)
    segment = np.sort(random.integers(0, 3, (1, length), dtype=np.int32))[:, ::-1]
    rank = random.integers(-1, 6, (1, length), dtype=np.int32)
    rank[0, random.integers(0, length)] = batch.NEVER
    query = {
        name: random.integers(-2, 6, (1, length), dtype=np.int32)
        for name in ("reach", *intervals)
    }
    return {"segment": np.array(segment), "rank": rank} | query


@pytest.mark.parametrize("norm_placement", ["pre", "post"])
@pytest.mark.parametrize("seed", range(3))
def test_a_state_depends_on_what_it_attends_to_and_on_itself(
    seed, norm_placement, make_options, make_group, make_params
):
    options = make_options(layers=1, norm_placement=norm_placement)
    intervals = batch.INTERVAL_ARRAYS[: 3 * (seed > 0)]
    group = make_group(1, 10, **random_pattern(seed, intervals=intervals))
    check_dependence(options, group, make_params)


def check_dependence(options, group, make_params):
    network = Transformer(options, size=50)
    params = make_params(network, lambda net: net.states(group))
    length = group["token"].shape[1]
    expected = batch.attention_mask(group)[0] | np.eye(length, dtype=bool)
    np.testing.assert_array_equal(dependence(network, params, group), expected)


@pytest.mark.parametrize(
    ("pattern", "attention"),
    [
        *((pattern, "dense") for pattern in PATTERNS),
        ("knowledge tree", "interval"),
        ("knowledge tree", "library"),
        *(
            pytest.param(pattern, attention, marks=pytest.mark.long)
            for pattern in PATTERNS
            for attention in ("interval", "library")
            if pattern != "knowledge tree"  # laws/test_kernel.py compares the others
        ),
    ],
)
def test_a_state_depends_on_the_keys_of_its_intervals(
    pattern, attention, make_options, make_group, make_params
):
    arrays, _ = draw_rows(pattern, rows=1, length=24)
    group = make_group(1, 24, **arrays)
    check_dependence(make_options(layers=1, attention=attention), group, make_params)


def test_only_the_first_positions_serve_as_keys(make_options, make_group, make_params):
    network = Transformer(make_options(layers=1), size=50)
    group = make_group(1, 8)
    params = make_params(network, lambda net: net.states(group, num_keys=5))
    expected = np.tile(np.arange(8) < 5, (8, 1))  # the others do not read their tokens
    np.testing.assert_array_equal(
        dependence(network, params, group, num_keys=5), expected
    )


@pytest.mark.parametrize(
    ("pattern", "keys"),
    [
        ("full", {"position": "t5"}),
        ("causal", {"position": "t5", "position_buckets": "one_way"}),
        ("causal", {"position_bias": "t5", "position_buckets": "two_way"}),
        ("causal", {"position": "rotary"}),
        ("full", {"position": "relative"}),
    ],
)
def test_patterns_equal_the_general_path(
    pattern, keys, make_options, make_group, make_params, assert_close
):
    """Also at distances from 8 on, where T5's buckets of both directions are others
    than those of one."""
    options = make_options(**keys)
    segment = np.array([[1] * 14 + [2] * 9 + [0], [1] * 3 + [0] * 21], np.int32)
    group = make_group(length=24, segment=segment, causal=pattern == "causal")
    fast = Transformer(options, size=50, pattern=pattern)
    general = Transformer(options, size=50, pattern="general")
    params = make_params(fast, lambda net: net.states(group))
    grad = np.random.default_rng(0).normal(size=(2, 24, 16))
    assert_close(
        states_and_grads(fast, params, group, grad),
        states_and_grads(general, params, group, grad),
        1e-6,
    )


@pytest.mark.parametrize("pattern", ["causal", "general"])
def test_only_causal_stacks_have_one_way_buckets_unless_a_key_says_it(
    pattern, make_options, make_group, make_params
):
    """As Mesh TensorFlow's: those of a prefix LM are of both directions."""
    group = make_group(causal=True)
    networks = {
        kind: Transformer(
            make_options(position="t5", position_buckets=kind), 50, pattern
        )
        for kind in ("auto", "one_way", "two_way")
    }
    params = make_params(networks["auto"], lambda net: net.states(group))
    table = params["stack"]["relative"]
    table = np.random.default_rng(0).normal(size=table.shape).astype(table.dtype)
    params["stack"]["relative"] = table
    states = {
        kind: apply(network, params, lambda net: net.states(group))
        for kind, network in networks.items()
    }
    same, other = ("one_way", "two_way")[:: 1 if pattern == "causal" else -1]
    np.testing.assert_array_equal(states["auto"], states[same])
    assert np.abs(states["auto"] - states[other]).max() > 0.01


def random_inputs(heads=2, queries=5, keys=7, width=4):
    random = np.random.default_rng(0)
    query, key, value = (
        np.float32(random.normal(size=(3, length, heads, width)))
        for length in (queries, keys, keys)
    )
    mask = random.random((3, queries, keys)) < 0.5
    mask[0, 2] = mask[1] = False
    return query, key, value, mask


@pytest.mark.parametrize("biased", [False, True])
def test_attention_is_the_definition_in_value_and_gradient(biased, assert_close):
    query, key, value, mask = random_inputs()
    random = np.random.default_rng(1)
    bias = np.float32(random.normal(size=(3, 2, 5, 7)))
    grad = np.float32(random.normal(size=query.shape))

    def ours(query, key, value, bias):
        additive = dense_attention.additive_mask(mask, bias if biased else None)
        return dense_attention.dense_attention(0.3 * query, key, value, additive)

    def definition(query, key, value, bias):
        logits = 0.3 * jnp.einsum("blhk,bmhk->bhlm", query, key)
        e = jnp.exp(logits + bias if biased else logits) * mask[:, None]
        total = e.sum(-1, keepdims=True)
        p = e / jnp.where(total == 0, 1, total)
        return jnp.einsum("bhlm,bmhk->blhk", p, value)

    for arguments in ((0, 1, 2), (0, 1, 2, 3)):
        pair = [
            jax.jit(
                jax.value_and_grad(
                    lambda *x, fn=fn: jnp.sum(fn(*x) * grad), argnums=arguments
                )
            )(query, key, value, bias)
            for fn in (ours, definition)
        ]
        assert_close(*pair)


def test_t5s_logits_are_not_scaled(make_options, make_group, make_params):
    # Its initial queries are small instead (Raffel et al. 2020, the released code).
    group = make_group()
    normal, t5 = (
        Transformer(make_options(layers=1, init=init), size=50)
        for init in ("normal", "t5")
    )
    params = make_params(normal, lambda net: net.states(group))
    made = apply(t5, params, lambda net: net.states(group))
    query = params["stack"]["blocks"]["attention"]["query"]
    query |= {name: leaf * 8**0.5 for name, leaf in query.items()}  # width of a head
    scaled = apply(normal, params, lambda net: net.states(group))
    np.testing.assert_allclose(made, scaled, atol=2e-5)


def test_a_query_without_keys_has_output_and_gradient_zero():
    query, key, value, mask = random_inputs()
    query[0, 2] = 1e4  # would overflow an exponential

    def ours(query, key, value):
        additive = dense_attention.additive_mask(mask)
        return dense_attention.dense_attention(query, key, value, additive)

    out, vjp = jax.vjp(ours, query, key, value)
    np.testing.assert_array_equal(out[0, 2], 0)
    np.testing.assert_array_equal(out[1], 0)
    grads = vjp(np.ones_like(out))
    assert all(np.isfinite(grad).all() for grad in grads)
    np.testing.assert_array_equal(grads[0][0, 2], 0)
    for grad in grads:
        np.testing.assert_array_equal(grad[1], 0)


def test_padding_and_packing_leave_other_documents_bit_equal(
    make_options, make_group, make_params
):
    network = Transformer(make_options(layers=2), size=50, pattern="causal")
    segment = np.array([[1] * 5 + [2] * 5 + [0] * 2], np.int32)
    group = make_group(1, segment=segment, causal=True)
    params = make_params(network, lambda net: net.states(group))
    grad = np.float32(segment == 2)[..., None] * np.ones(16, np.float32)
    states, grads = states_and_grads(network, params, group, grad)
    token = np.where(segment == 2, group["token"], 7)
    changed = group | {"token": token}
    other, other_grads = states_and_grads(network, params, changed, grad)
    np.testing.assert_array_equal(states[0, 5:10], other[0, 5:10])
    assert np.abs(states[0, :5] - other[0, :5]).max() > 1e-3
    kept = np.setdiff1d(np.arange(50), [7, *group["token"][segment != 2]])
    np.testing.assert_array_equal(
        grads["token"]["embedding"][kept], other_grads["token"]["embedding"][kept]
    )
    for x, y in zip(
        jax.tree.leaves(grads["stack"]),
        jax.tree.leaves(other_grads["stack"]),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def norm(x, p):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]


def two_streams(params, layers, content, query, content_mask, query_mask):
    """XLNet's two streams, written out: pre-norm, two heads, float64.

    content, query [L, D]: keys and values of both are those of the content.
    """

    def dense(x, p):
        return x @ p["kernel"] + p["bias"]

    def attend(x, source, mask, p):
        q, k, v = (
            dense(states, p[name]).reshape(len(states), 2, -1)
            for name, states in (("query", x), ("key", source), ("value", source))
        )
        logits = np.einsum("lhk,mhk->hlm", q, k) * q.shape[-1] ** -0.5
        e = np.exp(logits) * mask[None]
        p_HLM = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
        return dense(np.einsum("hlm,mhk->lhk", p_HLM, v).reshape(x.shape), p["out"])

    for layer in range(layers):
        p = jax.tree.map(lambda x: np.float64(x[layer]), params["blocks"])  # noqa: B023
        source = norm(content, p["attention_norm"])
        streams = []
        for x, mask in ((content, content_mask), (query, query_mask)):
            y = norm(x, p["attention_norm"])
            x = x + attend(y, source, mask, p["attention"])
            y = dense(norm(x, p["feedforward_norm"]), p["feedforward"]["in"])
            streams.append(x + dense(np.maximum(y, 0), p["feedforward"]["out"]))
        content, query = streams
    return norm(query, jax.tree.map(np.float64, params["norm"]))


def test_appended_queries_equal_two_streams(make_options, make_group, make_params):
    """The second stream starts from one vector, whatever tokens its group names."""
    length, hidden = 9, np.array([6, 1, 4, 7])
    random = np.random.default_rng(0)
    order = np.full(length, -1)
    order[hidden] = random.permutation(len(hidden))
    position = np.concatenate([np.arange(length), hidden])
    text = random.integers(5, 50, length)
    arrays = {
        "token": np.concatenate([text, hidden]),
        "position": position,
        "rank": np.concatenate([order, np.full(len(hidden), batch.NEVER)]),
        "reach": np.concatenate([order, order[hidden] - 1]),
    }
    group = make_group(
        1, len(position), **{k: np.int32(v)[None] for k, v in arrays.items()}
    )
    options = make_options(layers=2, activation="relu")
    network = Transformer(options, size=50)
    scored = np.arange(length, len(position), dtype=np.int32)[None]

    def states(net):
        return net.states(group, scored=scored, num_keys=length)

    params = make_params(network, states)
    ours = jax.jit(lambda p: networks.apply(network, p, states))(params)[0]
    rows = np.float64(params["token"]["embedding"])
    position_rows = np.float64(params["embeddings"]["position"])
    theirs = two_streams(
        params["stack"],
        2,
        rows[text] + position_rows[:length],
        np.float64(params["query_embedding"]["vector"]) + position_rows[hidden],
        order[None, :] <= order[:, None],
        order[None, :] < order[hidden][:, None],
    )
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize(
    "platform, changes, expected",
    [
        ("cpu", {}, "dense"),
        ("tpu", {"position": "t5", "dropout": 0.1}, "interval"),
        ("tpu", {"position": "relative"}, "interval"),
        ("cuda", {"dtype": "bfloat16"}, "library"),
        ("cuda", {}, "dense"),
        ("rocm", {"dtype": "bfloat16"}, "dense"),
        ("cuda", {"dtype": "bfloat16", "dropout": 0.1}, "dense"),
        ("cuda", {"dtype": "bfloat16", "width": 24}, "dense"),
        ("cuda", {"dtype": "bfloat16", "head_width": 136}, "dense"),
    ],
)
def test_auto_is_the_kernel_of_the_platform_where_it_serves(
    platform, changes, expected, make_options, make_group, monkeypatch
):
    """Of a GPU that is not there cuDNN's, since it need not be a Hopper."""
    monkeypatch.setattr(kernels, "platform", lambda: platform)
    options = make_options(attention="auto", **changes)
    group = make_group(1, 8)
    inputs = dense_attention.AttentionInputs(group, group, "general")
    assert kernels.choose_kernel(options, inputs).attention == expected
