"""Learning rates by layer: ELECTRA's decay, ULMFiT's factors and unfreezing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.batch import INPUT_ARRAYS
from research.contract.errors import UserError
from research.networks.transformer.one_stack import Transformer
from research.optimize.optimizer import make_optimizer
from tests.testing.model_options import model_options
from tests.testing.optimizer_section import section

LAYERS = 3


@pytest.fixture(scope="module")
def params():
    """Ones in the place of the parameters of a network of three layers and a head."""
    options = model_options(
        layers=LAYERS, width=8, heads=2, feedforward=8, embedding_width=4
    )
    network = Transformer(options, size=20, heads={"label": 2})
    group = {name: np.zeros((1, 4), np.int32) for name in INPUT_ARRAYS}

    def call(net):
        return net.head("label", net.states(group))

    shapes = networks.unbox(
        jax.eval_shape(lambda: networks.init(network, call, jax.random.key(0)))
    )
    return jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)


def moves(params, num_steps, **changes):
    """After each step with gradients of one: how far each part has moved in it."""
    keys = dict(name="sgd", clip_norm=0.0, warmup_steps=0, learning_rate=1.0, beta1=0.0)
    optimizer = make_optimizer(section(schedule="constant", **keys | changes), 9)
    update = jax.jit(optimizer.update)
    state = optimizer.init(params)
    for _ in range(num_steps):
        updates, state = update(params, state, params)
        yield by_part(jax.tree.map(jnp.negative, updates))


def by_part(tree):
    """The one value of head, final norm, blocks from the last, and embeddings."""
    blocks = [
        jax.tree.map(lambda leaf, at=layer: leaf[at], tree["stack"]["blocks"])
        for layer in reversed(range(LAYERS))
    ]
    embeddings = tree["token"], tree["embeddings"], tree["stack"]["project"]
    parts = [tree["head_label"], tree["stack"]["norm"], *blocks, embeddings]
    values = [np.concatenate([*map(np.ravel, jax.tree.leaves(p))]) for p in parts]
    assert all((value == value[0]).all() for value in values)
    return [float(value[0]) for value in values]


def test_layer_decay_reduces_the_updates_of_lower_layers(params):
    """ELECTRA's factors: 1 for heads, then decay^2, and one more power per layer."""
    (found,) = moves(params, 1, layer_decay=0.5)
    assert found == [1.0, 0.5, 0.5**2, 0.5**3, 0.5**4, 0.5**5]


def test_layer_rates_are_factors_from_the_embeddings_up(params):
    """The final norm has the last block's."""
    (found,) = moves(params, 1, layer_rates=[0.5, 0.125, 0.25, 1, 2])
    assert found == [2.0, 1.0, 1.0, 0.25, 0.125, 0.5]
    with pytest.raises(UserError, match=r"layer_rates must have 5 .*; got 2"):
        list(moves(params, 1, layer_rates=[1, 0.5]))


def test_layers_begin_to_learn_one_after_the_other_from_the_top(params):
    """The final norm with the last block; with weight decay, which waits likewise."""
    keys = dict(name="adamw", weight_decay=0.1, decay_params="all")
    found = [
        [value > 0 for value in parts]
        for parts in moves(params, 9, unfreeze_every=2, **keys)
    ]
    for step, learns in enumerate(found):
        groups = min(step // 2, 1 + LAYERS)  # that learn beside the head
        expected = [True, *[groups > 0] * 2, *(groups > n for n in range(1, 4))]
        assert learns == expected, step
    whole, gradual = (
        list(moves(params, 9, unfreeze_every=every, layer_decay=0.5))[-1]
        for every in (0, 2)
    )
    assert gradual == whole  # ULMFiT joins both


def test_a_run_that_ends_before_all_layers_learn_is_refused(params):
    words = r"unfreeze_every=3: .* from step 12 of train\.steps=9"
    with pytest.raises(UserError, match=words):
        make_optimizer(section(unfreeze_every=3, warmup_steps=0), 9).init(params)


BLOCK = {"input_kernel": np.ones((1, 2, 8)), "bias": np.ones((1, 8))}
FILTERS = {"filter_3": np.ones((3, 2, 4)), "bias_3": np.ones(4)}


@pytest.mark.parametrize(
    ("stack", "layers"),
    [
        ({"block_0": BLOCK, "block_1": BLOCK, "block_2": BLOCK}, 3),
        (FILTERS, 1),
    ],
    ids=["widths of their own", "filters"],
)
def test_layers_that_are_not_stacked_have_rates_of_their_own(stack, layers):
    """AWD-LSTM's, the last of which is narrower, and filters, which are one layer."""
    head = {"out": {"kernel": np.ones((2, 3))}}
    params = {"token": {"embedding": np.ones((5, 2))}, "stack": stack, "head_x": head}
    keys = dict(name="sgd", clip_norm=0.0, warmup_steps=0, learning_rate=1.0, beta1=0.0)

    def moved(**changes):
        optimizer = make_optimizer(section(schedule="constant", **keys | changes), 9)
        updates, _ = optimizer.update(params, optimizer.init(params), params)
        own = updates["stack"]
        blocks = [own[name] for name in stack] if layers > 1 else [own]
        parts = [updates["head_x"], *reversed(blocks), updates["token"]]
        leaves = [[np.ravel(leaf) for leaf in jax.tree.leaves(p)] for p in parts]
        return [{*(-np.concatenate(each)).tolist()} for each in leaves]

    assert moved(layer_decay=0.5) == [{1.0}, *({0.5**n} for n in range(2, layers + 3))]
    assert moved(unfreeze_every=1) == [{1.0}, *[{0.0}] * (layers + 1)]
    assert moved(frozen="network") == [{1.0}, *[{0.0}] * (layers + 1)]
