"""ELMo: characters, highways, clips, residuals, both directions, published sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import elmo
from research import networks
from research.contract.errors import UserError
from research.networks import Needs
from research.networks.recurrent.lstm import Network
from research.networks.recurrent.lstm_stack import State
from research.networks.shared import characters
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.trees import make_params, parameter_shapes

SPELLING = ("", "", "cat", "é", "x" * 60, *(f"word{n}" for n in range(45)))
VOCAB = vocab(size=50)._replace(spelling=SPELLING)
SMALL = {
    **{"layers": 2, "width": 8, "cell_width": 12, "input": "characters"},
    **{"character_filters": [4, 3], "character_width": 3, "word_bytes": 10},
    "tie_embeddings": False,
}
GROUP = {
    "token": np.array([[2, 3, 2, 5, 4, 0], [9, 9, 9, 3, 0, 0]]),
    "segment": np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]], np.int32),
}


def build(needs=None, vocabulary=VOCAB, **keys):
    needs = needs or Needs(pattern="full")
    return networks.build(Network(**SMALL | keys), needs, vocabulary)


def spelled(spelling, length):
    found = characters.spell(spelling, length)
    return np.asarray(characters.characters_of(found.inner, found.count))


def test_words_are_spelled_as_the_released_code_spells_them():
    table = spelled(SPELLING, 50)
    assert table[2].tolist() == [258, 99, 97, 116, 259] + [260] * 45
    assert table[3].tolist() == [258, 195, 169, 259] + [260] * 46
    assert table[4].tolist() == [258] + [120] * 48 + [259]
    assert table[0, :5].tolist() == [258, 256, 0, 259, 260]
    assert table[1, :5].tolist() == [258, 256, 1, 259, 260]


def test_a_highway_has_the_values_of_its_formula():
    """Of (0.5, 2), which the filters give: a padded word has one byte throughout."""
    options = Network(**SMALL | {"width": 2, "highways": 1})
    params = {
        "character": np.zeros((261, 1), np.float32) + 1,
        "filter_1": np.float32([[0.5, 1]]),
        "bias_1": np.float32([0, 1]),
        "carry_0": np.float32([[0.3, -0.2], [0.1, 0.4]]),
        "carry_0_bias": np.float32([-2, -2]),
        "transform_0": np.float32([[0.6, 0.2], [-0.5, 0.1]]),
        "transform_0_bias": np.float32([0, 0]),
        "project": np.eye(2, dtype=np.float32),
        "project_bias": np.zeros(2, np.float32),
    }
    found = characters._embed(options, 1, params, np.full((1, 10), 260))
    x = np.array([0.5, 2.0])
    gate = 1 / (1 + np.exp(-(x @ params["carry_0"] - 2)))
    new = np.maximum(x @ params["transform_0"], 0)
    np.testing.assert_allclose(found[0], gate * new + (1 - gate) * x, rtol=1e-5)


def test_distinct_tokens_have_the_vector_that_each_has_alone_and_its_gradient():
    """Also where there are more distinct tokens than a chunk has."""
    many = vocab(size=300)._replace(spelling=tuple(f"w{n}" for n in range(300)))
    module = build(vocabulary=many)
    token = np.random.default_rng(0).integers(0, 300, (2, 150))
    group = {"token": token, "segment": np.ones_like(token)}
    params = make_params(module, lambda net: net.states(group))
    table = spelled(many.spelling, 10)

    def loss(params, together):
        if together:
            x = networks.apply(module, params, lambda net: net.token(token))
        else:
            rows = table[token.ravel()]
            x = characters._embed(module.options, 2, params["token"], rows)
        return jnp.sum(jnp.sin(x))

    grads = [
        jax.jit(jax.value_and_grad(loss), static_argnums=1)(params, each)
        for each in (True, False)
    ]
    for leaf, other in zip(*map(jax.tree.leaves, grads), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("read", ["characters", "both"])
def test_vectors_of_characters_are_scaled_as_those_of_a_table(read):
    modules = [build(input=read, scale_embeddings=scale) for scale in (False, True)]
    fn = lambda net: net.token(GROUP["token"])  # noqa: E731
    params = make_params(modules[0], fn)
    plain, scaled = (apply(module, params, fn) for module in modules)
    np.testing.assert_allclose(scaled, plain * 8**0.5, rtol=1e-6)


def test_values_of_cells_and_projections_are_cut():
    """Two cells, of which one goes beyond 3, as does what is projected of them."""
    table = np.full((128, 1), 0.5, np.float32)
    blocks = {
        "input_kernel": [[0.1, 0.5, 0.3, 0.7, -0.2, -0.6, 0.4, 0.8]],
        "recurrent_kernel": [[0.2, 0.1, -0.3, -0.2, 0.1, 0.4, 0.2, 0.3]],
        "bias": [0, 3, 3, 0, 0.1, 3, -3, 0.1],
        "projection": [[1.5], [-4]],
    }
    layer = {name: np.float32(leaf)[None] for name, leaf in blocks.items()}
    params = {"token": {"embedding": table}, "stack": {"blocks": layer}}
    before = State(
        hidden=np.array([[[0.2]]], np.float32),
        cell=np.array([[[3, -3]]], np.float32),
        segment=np.array([1], np.int32),
    )
    keys = {"layers": 1, "width": 1, "cell_width": 2}
    group = {"token": np.zeros((1, 1), int), "segment": np.ones((1, 1), np.int32)}

    def run(**clips):
        options = Network(**keys, **clips)
        module = networks.build(options, Needs(pattern="causal"), VOCAB)
        found = apply(module, params, lambda net: net.outputs(group, cache=before))
        return found.states, found.cache

    states, after = run(cell_clip=3.0, projection_clip=3.0)
    np.testing.assert_allclose(after.cell[0, 0], [3, -3])
    np.testing.assert_allclose(states[0, 0], [3])
    states, after = run()
    np.testing.assert_allclose(after.cell[0, 0], [3.4789588, -3.4340298], rtol=1e-6)
    states, _ = run(cell_clip=3.0)
    np.testing.assert_allclose(states[0, 0], [3.39426913], rtol=1e-6)


def test_a_residual_is_added_to_the_output_and_not_to_the_state():
    keys = {"layers": 1, "width": 4, "cell_width": 0, "input": "table"}
    one = build(Needs(pattern="causal"), **keys)
    two = build(Needs(pattern="causal"), **keys | {"layers": 2, "residual": True})
    plain = build(Needs(pattern="causal"), **keys | {"layers": 2})
    params = make_params(two, lambda net: net.states(GROUP))

    def run(module, params):
        fn = lambda net: net.outputs(GROUP, cache=net.empty_cache(2, 0))  # noqa: E731
        found = apply(module, params, fn)
        return found.states, found.cache

    first = {
        "stack": {"blocks": jax.tree.map(lambda x: x[:1], params["stack"]["blocks"])}
    }
    of_first, _ = run(one, params | first)
    with_sum, state = run(two, params)
    without, same_state = run(plain, params)
    np.testing.assert_allclose(with_sum, without + of_first, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, state, same_state)


def test_the_directions_are_one_network_that_reads_turned_texts():
    """The same parameters for both: the states of a text from its end are those of the
    turned text, and layers of one direction do not read the other's."""
    module = build()
    params = make_params(module, lambda net: net.states(GROUP))
    params |= {"backward": params["forward"]}
    turned = {name: array[:, ::-1] for name, array in GROUP.items()}
    states, back = (
        apply(module, params, lambda net, group=group: net.states(group))
        for group in (GROUP, turned)
    )
    np.testing.assert_allclose(states[..., 8:], back[:, ::-1, :8], atol=1e-6)
    assert np.abs(states[..., 8:] - states[..., :8]).max() > 1e-3


def test_features_are_a_mix_of_all_layers_of_which_the_first_is_twice_the_embedding():
    module = build(Needs(pattern="full", features="mix"))
    params = make_params(module, lambda net: net.features(GROUP))
    is_text = (GROUP["segment"] > 0)[..., None]

    def mix(*layers):
        weights = np.float32(layers) * 50
        own = {"layers": weights, "scale": np.float32(1)}

        def fn(net):
            return net.features(GROUP), net.states(GROUP), net.token(GROUP["token"])

        return apply(module, params | {"features": own}, fn)

    last, states, token = mix(0, 0, 1)
    np.testing.assert_allclose(last, states, atol=1e-5)
    first, *_ = mix(1, 0, 0)
    both = np.concatenate([token, token], -1)
    np.testing.assert_allclose(first, np.where(is_text, both, 0), atol=1e-5)


@pytest.mark.parametrize(
    ("keys", "published"),
    [
        ({"width": 128, "cell_width": 1024, "highways": 1}, 13_593_296),
        ({"width": 256, "cell_width": 2048, "highways": 1}, 28_027_728),
        ({}, 93_600_848),
    ],
)
def test_elmo_has_the_published_numbers_of_parameters(keys, published):
    """Without the softmax (13.6, 28.0 and 93.6 M)."""
    options = elmo.get_config("base").model.to_dict()
    options = networks.from_config(options | keys)
    module = networks.build(options, Needs(pattern="full"), VOCAB)
    shapes = parameter_shapes(module, lambda net: net.states(GROUP))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == published


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"tie_embeddings": True}, "set model.tie_embeddings=False"),
        ({"character_filters": []}, "numbers of filters of 1, 2, 3"),
        ({"character_filters": [3, 0]}, "numbers of filters of 1, 2, 3"),
        ({"word_bytes": 4, "character_filters": [1] * 5}, "at most model.word_bytes"),
        ({"cell_width": 0, "projection_clip": 3.0}, "there is no projection"),
        ({"cell_width": 0, "inner_width": 9, "residual": True}, "inner_width=0"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, error):
    with pytest.raises(UserError, match=error):
        build(**keys)


def test_characters_need_words():
    with pytest.raises(UserError, match=r"set data\.vocabulary=words"):
        build(vocabulary=vocab(size=50)._replace(spelling=None))
    with pytest.raises(UserError, match=r"set model\.inner_width=0"):
        keys = {"inner_width": 9, "cell_width": 0}
        build(Needs(pattern="full", features="mix"), **keys)
    with pytest.raises(UserError, match="reads texts from both ends"):
        build(Needs(pattern="full", mems=True))
