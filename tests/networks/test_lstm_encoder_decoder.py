"""An encoder and a decoder of LSTMs: the formulas, packed texts, texts written token
by token, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.batch import FEATURE
from research.contract.errors import UserError
from research.networks import Needs
from research.networks.recurrent.lstm import Network
from research.networks.recurrent.lstm_encoder_decoder import Attended, attentional_state
from research.program import flops
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.trees import make_params

VOCAB = vocab(size=50)
D, E, F, M, L = 3, 4, 5, 6, 5
KEYS = {
    **{"layers": 1, "joined_layers": 1, "width": D, "embedding_width": E},
    **{"input": "vectors", "tie_embeddings": False, "output_head": "bias"},
}
NEEDS = Needs(pattern="full", stacks="encoder_decoder", input_features=F)
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(2, M, F)).astype(np.float32)
TOKEN = RANDOM.integers(5, VOCAB.size, (2, L), dtype=np.int32)
ENCODER = {"token": np.ones((2, M), np.int32), FEATURE: VECTORS}
ENCODER["segment"] = np.array([[1] * 4 + [0] * 2, [1] * 6], np.int32)
DECODER = {"token": TOKEN, "segment": np.array([[1] * 3 + [0] * 2, [1] * 5], np.int32)}


def read(net, encoder, decoder):
    return net.states(decoder, encoded=net.encode(encoder))


@pytest.fixture(scope="module")
def case():
    """The module, random parameters, and a compiled function of the two groups."""
    module = networks.build(Network(**KEYS), NEEDS, VOCAB)
    params = make_params(module, lambda net: read(net, ENCODER, DECODER))

    @jax.jit
    def states(encoder, decoder):
        fn = lambda net: read(net, encoder, decoder)  # noqa: E731
        return networks.apply(module, params, fn)

    return module, params, states


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(block, x, hidden, cell):
    """One step of a layer, in float64."""
    names = "input_kernel", "recurrent_kernel", "bias"
    kernel, recurrent, bias = (np.float64(block[name][-1]) for name in names)
    gates = (x @ kernel + hidden @ recurrent + bias).reshape(-1, 4)
    i, f, g, o = gates.T
    cell = sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def run_layer(block, rows):
    """The states [n, D] and the last cell of rows [n, ...]."""
    hidden, cell, found = np.zeros(D), np.zeros(D), []
    for x in rows:
        hidden, cell = step(block, x, hidden, cell)
        found.append(hidden)
    return np.array(found), cell


def translate(params, vectors, token):
    """h~ [n, 2 D] of the decoder's tokens, as the paper and its code compute them."""
    encoder, decoder = params["encoder"], params["decoder"]
    rows, begin = vectors, []
    first = {side: encoder[side]["stack"]["blocks"] for side in ("forward", "backward")}
    second = {side: encoder[f"joined_{side}_0"]["block_1"] for side in first}
    for blocks in (first, second):
        ahead, ahead_cell = run_layer(blocks["forward"], rows)
        back, back_cell = run_layer(blocks["backward"], rows[::-1])
        last = np.concatenate([ahead[-1], back[-1]])
        begin.append((last, np.concatenate([ahead_cell, back_cell])))
        rows = np.concatenate([ahead, back[::-1]], axis=1)
    attention = {k: np.float64(v) for k, v in decoder["attention"].items()}
    fed, states, found = np.zeros(2 * D), begin, []
    for word in token:
        x = np.concatenate([params["decoder_token"]["embedding"][word], fed])
        for n in range(2):
            states[n] = step(decoder[f"block_{n}"], x, *states[n])
            x = states[n][0]
        query = attention["bilinear"] @ x
        weight = np.exp(rows @ query)
        context = weight @ rows / weight.sum()
        fed = np.tanh(context @ attention["context"] + x @ attention["state"])
        found.append(fed)
    return np.array(found)


def test_states_are_those_of_the_formulas(case):
    _, params, states = case
    found = np.asarray(states(ENCODER, DECODER))
    for row, (read_length, written) in enumerate([(4, 3), (6, 5)]):
        expected = translate(params, VECTORS[row, :read_length], TOKEN[row, :written])
        np.testing.assert_allclose(found[row, :written], expected, atol=2e-6)
        assert not found[row, written:].any()


def test_the_decoders_attention_follows_its_last_layer(case):
    """So its rate is the highest but that of heads, where rates decay by layer."""
    _, params, _ = case
    depths = networks.layer_depths(params)
    layers = [int(depths["decoder"][f"block_{n}"]["bias"].item()) for n in range(2)]
    assert layers == [1, 2] and depths["decoder_token"]["embedding"] == 0
    assert {int(depth) for depth in depths["decoder"]["attention"].values()} == {3}


def test_packed_texts_have_the_states_of_each_alone(case):
    _, _, states = case
    alone = np.asarray(states(ENCODER, DECODER))
    pick = lambda x: np.concatenate([x[0, :4], x[1, :6]])[None]  # noqa: E731
    encoder = {name: pick(array) for name, array in ENCODER.items()}
    encoder["segment"] = np.repeat([[1, 2]], (4, 6), axis=1).astype(np.int32)
    decoder = {"token": np.concatenate([TOKEN[0, :3], TOKEN[1]])[None]}
    decoder["segment"] = np.repeat([[1, 2]], (3, 5), axis=1).astype(np.int32)
    expected = np.concatenate([alone[0, :3], alone[1]])
    np.testing.assert_allclose(states(encoder, decoder)[0], expected, atol=2e-6)


def test_texts_that_are_read_token_by_token_have_the_same_states(case):
    """From the second token on the encoder's text is the cache's; each row becomes two
    texts, which then change places."""
    module, params, _ = case
    twice = lambda group: {k: np.repeat(v, 2, 0) for k, v in group.items()}  # noqa: E731
    decoder, order = twice(DECODER), np.array([1, 0, 3, 3])
    decoder["token"][::2, 1] += 1
    chosen = {k: v[order] for k, v in decoder.items()}
    part = lambda group, *ends: {k: v[:, slice(*ends)] for k, v in group.items()}  # noqa: E731

    def run(net):
        cache, encoded = net.empty_cache(2, 0), net.encode(ENCODER)
        first = net.outputs(part(DECODER, 0, 1), encoded=encoded, cache=cache)
        cache = first.cache.repeat_rows(2)
        cache = net.outputs(part(decoder, 1, 2), cache=cache).cache
        rest, cache = part(chosen, 2, L), cache.select_rows(order)
        scored = jnp.full((4, 1), 0)
        next_state = net.outputs(rest, scored=scored, cache=cache).states[:, 0]
        return next_state, read(net, twice(ENCODER), chosen)[:, 2]

    found, whole = apply(module, params, run)
    np.testing.assert_allclose(found, whole, atol=2e-6)
    assert np.abs(np.asarray(whole[0] - whole[1])).max() > 1e-3


def test_features_of_a_task_are_the_vectors_and_the_encoders_states(case):
    module, params, _ = case
    encoded = apply(module, params, lambda net: net.encode(ENCODER).states)
    needs = Needs(pattern="full", features="vectors_last", input_features=F)
    task = networks.build(Network(**KEYS), needs, VOCAB)
    found = apply(task, params["encoder"], lambda net: net.features(ENCODER))
    expected = np.concatenate([VECTORS, encoded], axis=-1)
    is_text = ENCODER["segment"] > 0
    np.testing.assert_array_equal(np.asarray(found)[is_text], expected[is_text])


def test_the_attentional_state_is_the_golden_one():
    encoded = np.float32([[[1, 0], [0, 1], [1, 1]]])
    bilinear, state = np.float32([[0.5, -0.2], [0.1, 0.3]]), np.float32([[0.6, -0.4]])
    combine = np.float32([[0.2, 0.1, 0.3, 0], [-0.1, 0.4, 0, 0.2]])
    value = encoded @ combine[:, :2].T
    attended = Attended(encoded @ bilinear, value, np.ones((1, 3), np.int32))
    attends = np.ones((1, 3), bool)
    found = attentional_state(jnp.array(state), attended, attends, combine[:, 2:].T)
    np.testing.assert_allclose(found, [[0.37266467, 0.08997175]], atol=1e-7)


def test_all_products_round_their_operands():
    """Those of attention in each step, too; and nothing else is rounded."""
    low = networks.build(Network(**KEYS, product_dtype="bfloat16"), NEEDS, VOCAB)
    fn = lambda net: read(net, ENCODER, DECODER)  # noqa: E731
    params = make_params(low, fn)
    run = lambda params: networks.apply(low, params, fn)  # noqa: E731
    kinds = flops.flops_by_kind(run, params)
    assert {kind for kind in kinds if kind.endswith(flops.PRODUCTS)} == {
        f"bfloat16{flops.PRODUCTS}"
    }
    assert jax.eval_shape(run, params).dtype == jnp.float32


def test_dropout_of_the_states_is_what_the_next_position_reads():
    """Of all that is dropped, the attentional state alone has rows of zeros; without
    it the states differ from those of no dropout from the second position on."""
    off = dict.fromkeys(("embedding", "hidden", "output"), 0.0)
    found = []
    for rates in ({}, {"output": 0.5}):
        keys = {f"{place}_dropout": rate for place, rate in (off | rates).items()}
        module = networks.build(Network(**KEYS | keys), NEEDS, VOCAB)
        run = lambda net: read(net, ENCODER, DECODER)  # noqa: E731
        params = make_params(module, run)
        found.append(np.asarray(apply(module, params, run, jax.random.key(0)))[1])
    plain, dropped = found
    kept = dropped != 0
    assert 0.2 < kept.mean() < 0.8
    assert np.abs(dropped[1:][kept[1:]] - 2 * plain[1:][kept[1:]]).max() > 1e-3


@pytest.mark.parametrize(
    ("keys", "needs", "words"),
    [
        ({"residual": True, "input": "table"}, NEEDS, "residual .* set it to False"),
        ({"inner_width": 8, "input": "table"}, NEEDS, "inner_width .* set it to 0"),
        ({"joined_cell_width": 5}, NEEDS, "joined_cell_width .* set it to 0"),
        ({}, Needs(pattern="full"), "reads objective.vectors, which is not set"),
        (
            {"joined_layers": 0},
            Needs(pattern="full", features="mix", input_features=F),
            "the first one reads vectors of 5; set objective.features=vectors_last",
        ),
        ({"tie_embeddings": True}, NEEDS, "input vectors has no table of words"),
    ],
)
def test_what_does_not_go_together_is_refused(keys, needs, words):
    with pytest.raises(UserError, match=words):
        networks.build(Network(**KEYS | keys), needs, VOCAB)


def test_a_text_without_its_vectors_is_refused(case):
    module, params, _ = case
    without = {k: v for k, v in ENCODER.items() if k != FEATURE}
    with pytest.raises(UserError, match="which this text does not have"):
        apply(module, params, lambda net: read(net, without, DECODER))
