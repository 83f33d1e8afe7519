"""The laws of readouts; parts are found by listing the folder.

tests/laws/test_network.py tests that each network has or refuses them, and
tests/networks/test_models_on_a_mesh.py that a mesh changes no loss and no gradient.
"""

# B batch, K scored positions, V vocabulary

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks import Needs, readouts
from research.networks.transformer.transformer import Network
from research.objectives.losses.cross_entropy import cross_entropy
from research.objectives.losses.softmax import IMPLEMENTATIONS
from tests.testing import fast_key
from tests.testing.example_batches import vocab
from tests.testing.readout_keys import example_keys

NAMES = sorted(readouts.outputs())
OTHERS = [name for name in NAMES if readouts.outputs()[name].chosen_by]
SIZE, SHAPE = 50, (2, 7)
RANDOM = np.random.default_rng(0)
STATES = np.float32(RANDOM.normal(size=(*SHAPE, 16)))
TARGET = RANDOM.integers(0, SIZE, SHAPE)
WEIGHT = np.float32(RANDOM.random(SHAPE) * (RANDOM.random(SHAPE) < 0.7))


def make_network(name: str) -> Network:
    keys = {"layers": 1, "width": 16, "heads": 2, "feedforward": 8}
    return Network(**keys | example_keys(name, Network))


@pytest.fixture(scope="module", params=NAMES)
def read(request):
    """A function of parameters and states to a readout, and its parameters."""
    needs = Needs(pattern="causal")
    module = networks.build(make_network(request.param), needs, vocab(size=SIZE))

    def readout(params, states):
        return networks.apply(module, params, lambda net: net.readout(states))

    def init():
        def embed_and_read(net):
            embed = net.embeddings()[0]
            return embed(np.zeros((1, 1), np.int32)), net.readout(STATES).logits()

        return networks.init(module, embed_and_read, fast_key.key(0))

    params = networks.unbox(jax.jit(init)())
    values = [RANDOM.normal(size=x.shape) / 2 for x in jax.tree.leaves(params)]
    return readout, jax.tree.unflatten(jax.tree.structure(params), values)


def test_logits_are_those_of_all_words(read):
    readout, params = read
    logits = readout(params, STATES).logits()
    assert logits.shape == (*SHAPE, SIZE) and logits.dtype == jnp.float32
    assert np.all(np.isfinite(logits)) and np.ptp(logits) > 0.1


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_the_loss_is_minus_log_p_by_the_logits(read, implementation):
    """Value and gradient equal those of the definition."""
    readout, params = read

    def by_loss(params, states):
        answers = TARGET, WEIGHT
        term, correct = cross_entropy(
            readout(params, states), *answers, implementation=implementation
        )
        return term.total, correct

    def by_logits(params, states):
        log_p = jax.nn.log_softmax(readout(params, states).logits())
        chosen = jnp.take_along_axis(log_p, TARGET[..., None], axis=-1)[..., 0]
        return -jnp.sum(WEIGHT * chosen)

    grad = jax.value_and_grad(by_loss, argnums=(0, 1), has_aux=True)
    (value, correct), grads = jax.jit(grad)(params, STATES)
    definition = jax.jit(jax.value_and_grad(by_logits, argnums=(0, 1)))
    expected, expected_grads = definition(params, STATES)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert 0 <= correct <= WEIGHT.sum()
    leaves = jax.tree.leaves(expected_grads)
    scale = max(float(jnp.abs(leaf).max()) for leaf in leaves)
    for ours, theirs in zip(jax.tree.leaves(grads), leaves, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=3e-6 * scale)


@pytest.mark.parametrize("options", [{"smoothing": 0.1}, {"z_loss": 0.01}])
def test_a_penalty_is_computed_from_the_logits_or_refused(read, options):
    readout, params = read
    here = readout(params, STATES)
    try:
        term, _ = cross_entropy(here, TARGET, WEIGHT, **options)
    except UserError as error:
        assert f"model.{here.chosen_by} " in str(error)
        return
    logits = here.logits()
    log_p = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(log_p, TARGET[..., None], axis=-1)[..., 0]
    smoothing = options.get("smoothing", 0)
    loss = -(1 - smoothing) * chosen - smoothing * log_p.mean(-1)
    loss += options.get("z_loss", 0) * jax.nn.logsumexp(logits, -1) ** 2
    np.testing.assert_allclose(term.total, np.sum(WEIGHT * loss), rtol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_its_key_chooses_it_and_others_are_defined_by_it(name):
    network, output = make_network(name), readouts.outputs()[name]
    assert type(network.output) is output
    defaults = dataclasses.replace(network, **readouts.keys())
    assert type(defaults.output) is not output
    for key, values in output.needs.items():
        if not hasattr(Network, key):
            continue
        for value in _other_values(key, values):
            with pytest.raises(
                UserError, match=f"{output.chosen_by} needs model.{key}"
            ):
                dataclasses.replace(network, **{key: value})


def _other_values(key: str, values: tuple) -> list:
    """A legal value of the key, which is none of these."""
    field = next(f for f in dataclasses.fields(Network) if f.name == key)
    legal = field.metadata.get("values") or (0, 8, False, True)
    kind = type(field.default)
    return [v for v in legal if type(v) is kind and v not in values][:1]


@pytest.mark.parametrize("name", networks.Readout._fields)
@pytest.mark.parametrize("other", OTHERS)
def test_what_reads_one_softmax_is_refused(other, name):
    """As docs/examples/objectives/distilled.py does; and what takes it for a tuple."""
    needs = Needs(pattern="causal")
    module = networks.build(make_network(other), needs, vocab(size=SIZE))

    def read(net):
        readout = net.readout(STATES)
        for factor in (lambda: getattr(readout, name), lambda: readout[0]):
            with pytest.raises(UserError, match=r"one softmax over all words; set mod"):
                factor()

    jax.eval_shape(lambda: networks.init(module, read, fast_key.key(0)))
