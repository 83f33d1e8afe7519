"""Limits of mems, and dropout of distances, are those of Transformer-XL's release.

The expected states are a transcription to NumPy of kimiyoung/transformer-xl at 44781ed,
pytorch/mem_transformer.py: `_forward` and `RelPartialLearnableMultiHeadAttn.forward`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks import Needs
from research.networks.transformer.one_stack import Transformer
from research.networks.transformer.positions import relative
from tests.testing import fast_key
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.trees import make_params

# L positions of a row, M keys, H heads, K head width, D width

ROWS, LENGTH, NUM_ROWS, MEM_LEN, WIDTH, HEADS = 2, 5, 4, 7, 16, 2
SIZE = 50
EPSILON = 1e-5


@pytest.fixture
def make_network(make_options):
    def make(**changes):
        own = {"norm_placement": "post", "position": "relative", "activation": "relu"}
        own |= {"embedding_norm": "never", "scale_embeddings": True, "width": WIDTH}
        own |= {"shared_relative_biases": True, "norm_epsilon": EPSILON}
        return Transformer(make_options(heads=HEADS, **own | changes), SIZE, "causal")

    return make


@pytest.fixture
def stream():
    """Successive rows of two streams: groups of arrays."""
    token = np.random.default_rng(0).integers(5, SIZE, (ROWS, NUM_ROWS * LENGTH))
    position = np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1))
    same = {name: position for name in ("position", "rank", "reach")}
    same |= {"segment": 0 * position + 1, "token_type": 0 * position}
    rows = np.split(token.astype(np.int32), NUM_ROWS, axis=1)
    return [same | {"token": row} for row in rows]


def read_stream(net, stream, mem_len, **limits):
    """States [B, NUM_ROWS * L, D] of successive rows."""
    mems, found = net.empty_mems(ROWS, mem_len), []
    for row in stream:
        outputs = net.outputs(row, mems=mems, **limits)
        mems = outputs.mems
        found.append(outputs.states)
    return jnp.concatenate(found, axis=1)


def released(params, token_L, mem_len, *, clamp_len, same_length, kept):
    """States [NUM_ROWS * L, D] of one stream.

    Args:
      clamp_len: -1 for none.
      kept: [M, D] factors of positional embeddings, of the largest distance first; they
        have as many rows as the most keys.
    """
    blocks, found, mems = params["stack"]["blocks"], [], None
    for row in np.split(token_L, NUM_ROWS):
        hids = [params["token"]["embedding"][row] * WIDTH**0.5]
        mlen = 0 if mems is None else len(mems[0])
        qlen, klen = len(row), mlen + len(row)
        ones = np.ones((qlen, klen))
        mask = np.triu(ones, 1 + mlen)
        if same_length:
            mask_len = klen - mem_len
            shift = qlen - mask_len if mask_len > 0 else qlen
            mask = mask + np.tril(ones, -shift)
        distance = np.arange(klen - 1, -1, -1.0)
        if clamp_len > 0:
            distance = np.minimum(distance, clamp_len)
        angle = np.outer(distance, 1 / 10000 ** (np.arange(0.0, WIDTH, 2.0) / WIDTH))
        r = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1) * kept[-klen:]
        for n in range(len(blocks["attention_norm"]["scale"])):
            layer = jax.tree.map(lambda leaf, n=n: leaf[n], blocks)
            memory = np.zeros((0, WIDTH)) if mems is None else mems[n]
            hids.append(released_layer(params, layer, hids[-1], memory, r, mask))
        before = hids if mems is None else map(np.concatenate, zip(mems, hids))  # noqa: B905
        mems = [each[-mem_len:] for each in before]
        found.append(hids[-1])
    return np.concatenate(found)


def released_layer(params, layer, w, mems, r, mask):
    """[L, D]: attention to mems and row by content and distance, then feed-forward."""
    own, heads = layer["attention"], lambda x: x.reshape(len(x), HEADS, -1)
    cat = np.concatenate([mems, w])
    q = heads(w @ own["query"]["kernel"])
    k, v = (heads(cat @ own[name]["kernel"]) for name in ("key", "value"))
    r_head_k = heads(r @ own["relative"]["kernel"])
    u, bias = (params["stack"][n] for n in ("content_bias", "position_bias"))
    ac = np.einsum("ind,jnd->ijn", q + u.reshape(HEADS, -1), k)
    bd = np.einsum("ind,jnd->ijn", q + bias.reshape(HEADS, -1), r_head_k)
    # _rel_shift
    padded = np.concatenate([np.zeros((len(w), 1, HEADS)), bd], axis=1)
    bd = padded.reshape(len(cat) + 1, len(w), HEADS)[1:].reshape(bd.shape)
    score = (ac + bd) / q.shape[-1] ** 0.5
    score = np.where(mask[:, :, None] > 0, -np.inf, score)
    prob = np.exp(score - score.max(axis=1, keepdims=True))
    prob /= prob.sum(axis=1, keepdims=True)
    vec = np.einsum("ijn,jnd->ind", prob, v).reshape(len(w), -1)
    x = layer_norm(layer["attention_norm"], w + vec @ own["out"]["kernel"])
    inner, outer = layer["feedforward"]["in"], layer["feedforward"]["out"]
    core = np.maximum(0, x @ inner["kernel"] + inner["bias"])
    core = core @ outer["kernel"] + outer["bias"]
    return layer_norm(layer["feedforward_norm"], x + core)


def layer_norm(own, x):
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON)
    return x * own["scale"] + own["bias"]


def expected_states(params, stream, mem_len, *, clamp_len=-1, same=False, kept=None):
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    kept = np.ones((mem_len + LENGTH, WIDTH)) if kept is None else kept
    token = np.concatenate([row["token"] for row in stream], axis=1)
    limits = {"clamp_len": clamp_len, "same_length": same, "kept": kept}
    return np.stack([released(params, row, mem_len, **limits) for row in token])


@pytest.mark.parametrize(
    ("attention", "mem_len", "same_length", "clamp_len"),
    [
        ("dense", MEM_LEN, False, 0),
        ("dense", MEM_LEN, True, 0),
        ("dense", MEM_LEN, True, 3),
        ("dense", LENGTH - 2, True, 4),
        ("interval", LENGTH - 2, True, 0),
    ],
)
def test_states_are_those_of_the_released_code(
    attention, mem_len, same_length, clamp_len, make_network, stream
):
    """The fourth row is the first whose mems, of two rows, are full."""
    network = make_network(attention=attention)
    limits = {"same_length": same_length, "clamp_len": clamp_len}
    read = lambda net: read_stream(net, stream, mem_len, **limits)  # noqa: E731
    params = make_params(network, read)
    kw = {"clamp_len": clamp_len or -1, "same": same_length}
    expected = expected_states(params, stream, mem_len, **kw)
    np.testing.assert_allclose(apply(network, params, read), expected, atol=5e-5)
    if same_length or clamp_len:
        other = expected_states(params, stream, mem_len)
        assert np.abs(other - expected).max() > 1e-2


def test_dropout_of_distances_is_of_the_same_sines_in_all_rows_and_layers(
    make_network, stream, monkeypatch
):
    """Sines, not whole distances, are dropped, once for a row and its mems."""
    kept = np.random.default_rng(1).random((MEM_LEN + 2 * LENGTH, WIDTH)) < 0.7
    kept = kept.astype(np.float32) / 0.7

    def drop(module, x, place):
        drops = place == "position" and module.has_rng("dropout")
        return x * kept if drops else x

    monkeypatch.setattr(relative, "dropout", drop)
    own = {"position_dropout": 0.3, "position_dropout_unit": "distance"}
    network = make_network(**own)
    read = lambda net: read_stream(net, stream, MEM_LEN)  # noqa: E731
    params = make_params(network, read)
    states = apply(network, params, read, fast_key.key(0))
    first = kept[: MEM_LEN + LENGTH]  # the others are of the future
    # The released code has no mems that are empty: its rows are the last of these.
    expected = expected_states(params, stream, MEM_LEN, kept=first)
    np.testing.assert_allclose(states, expected, atol=5e-5)


def test_equal_rows_have_equal_states_which_differ_from_step_to_step(
    make_network, stream
):
    own = {"position_dropout": 0.3, "position_dropout_unit": "distance"}
    network, row = make_network(layers=1, **own), jax.tree.map(jnp.array, stream[0])
    row = {name: jnp.tile(array[:1], (2, 1)) for name, array in row.items()}
    states = lambda net: net.states(row)  # noqa: E731
    params = make_params(network, states)
    one, other = (
        np.asarray(apply(network, params, states, fast_key.key(n))) for n in (0, 1)
    )
    without = np.asarray(apply(network, params, states))
    for x in (one, other):
        np.testing.assert_array_equal(x[0], x[1])
        assert np.abs(x - without).max() > 1e-2
    assert np.abs(one - other).max() > 1e-2


def test_scored_states_are_the_gathered_ones(make_network, stream):
    """Also as many as there are positions, in another order."""
    network, limits = make_network(), {"same_length": True, "clamp_len": 3}
    scored = np.array([[3, 0, 2, 1, 4], [1, 1, 4, 2, 0]], np.int32)

    def run(net, **kw):
        empty = net.empty_mems(ROWS, MEM_LEN)
        mems = net.outputs(stream[0], mems=empty, **limits).mems
        return net.outputs(stream[1], mems=mems, **limits, **kw).states

    params = make_params(network, run)
    states = apply(network, params, run)
    expected = np.take_along_axis(np.asarray(states), scored[..., None], axis=1)
    found = apply(network, params, lambda net: run(net, scored=scored))
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("attention", ["dense", "interval"])
@pytest.mark.parametrize("mem_len", [3, MEM_LEN])
def test_a_state_depends_on_as_many_tokens_as_there_are_mems(
    mem_len, attention, make_network, stream
):
    """In a network of one layer; on none that comes later."""
    network = make_network(layers=1, attention=attention)
    row = {name: array[:1] for name, array in stream[0].items()}
    row["token"] = np.arange(LENGTH, dtype=np.int32)[None]
    memory = np.random.default_rng(0).normal(size=(mem_len, WIDTH)).astype(np.float32)
    direction = np.random.default_rng(1).normal(size=WIDTH)

    def states(params, memory):
        mems = {"state": memory[None, None], "segment": jnp.ones((1, mem_len), int)}
        run = lambda net: net.outputs(row, mems=mems, same_length=True)  # noqa: E731
        return networks.apply(network, params, run).states[0] @ direction

    params = make_params(
        network, lambda net: net.outputs(row, mems=net.empty_mems(1, mem_len)).states
    )
    run = jax.jit(states)
    distance = np.arange(LENGTH)[:, None] - np.arange(-mem_len, LENGTH)
    expected = (distance >= 0) & (distance < mem_len)
    base, changed = np.asarray(run(params, memory)), []
    for place in range(mem_len):
        other = memory.copy()
        other[place] += 1
        changed.append(np.asarray(run(params, other)) != base)
    for token in range(LENGTH):
        table = params["token"]["embedding"].copy()
        table[token] += 1
        other = params | {"token": {"embedding": table}}
        changed.append(np.asarray(run(other, memory)) != base)
    np.testing.assert_array_equal(np.stack(changed, axis=1), expected)


def test_implementations_without_these_limits_are_refused(make_network, stream):
    with pytest.raises(UserError, match="attention interval has no dropout of dist"):
        own = {"position_dropout": 0.1, "position_dropout_unit": "distance"}
        make_network(attention="interval", **own)
    with pytest.raises(UserError, match=r"dropout_unit needs model\.position relative"):
        own = {"position": "rotary", "shared_relative_biases": False}
        make_network(position_dropout_unit="distance", **own)
    network = make_network(attention="interval")
    read = lambda net: read_stream(net, stream, MEM_LEN, clamp_len=3)  # noqa: E731
    with pytest.raises(UserError, match="interval on cpu has no largest distance"):
        jax.eval_shape(lambda: networks.init(network, read, jax.random.key(0)))


def test_distances_are_dropped_in_causal_rows_alone(make_network):
    own = {"position_dropout": 0.1, "position_dropout_unit": "distance"}
    options = make_network(**own).options
    assert networks.build(options, Needs(pattern="causal"), vocab())
    with pytest.raises(UserError, match="pattern of this objective is full"):
        networks.build(options, Needs(pattern="full"), vocab())
