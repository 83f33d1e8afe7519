"""electra: masked positions, samples of the generator, labels and gradients.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

from research import networks, objectives
from research.contract.batch import SENTENCE
from research.contract.errors import UserError
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.contrastive import electra
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab()
SIGNIFICANCE = 1e-4
KEY = jax.random.key(0)


def corrupt(lengths, length, **fields):
    objective = objectives.make_objective("electra", **fields)
    example = texts(length - 2, lengths, VOCAB)
    return objective.corrupt(example, keys(len(lengths)), VOCAB, length), example


def on_device(batch) -> dict:
    rows = len(batch["token"])
    batch = batch | {"example": np.arange(rows, dtype=np.int32)}
    return jax.tree.map(jnp.asarray, batch)


sample = jax.jit(electra.sample)


def readout(logits: np.ndarray) -> networks.Readout:
    """A readout [B, K, E = V] of the given logits [B, K, V]."""
    size = logits.shape[-1]
    table, bias = jnp.eye(size), jnp.zeros(size)
    return networks.Readout(jnp.asarray(logits, jnp.float32), table, bias, size)


def test_positions_are_distinct_and_the_rate_is_kept():
    # With replacement some 15 % of the draws would share their position.
    batch, _ = corrupt([510] * 20 + [100, 1], 512)
    for row, length in enumerate([510] * 20 + [100, 1]):
        scored = batch["scored"][row][batch["weight"][row] > 0]
        assert len(set(scored)) == len(scored) == max(1, round(0.15 * (length + 2)))


def test_a_pair_of_segments_is_from_one_document():
    objective = objectives.make_objective("electra", format="segment_pair")
    spec = objective.text_spec(32)
    assert spec == TextSpec("halves", 30, short_rate=0.05)
    assert spec.width == 45
    example = texts(45, [29, 20, 8, 30, 0], VOCAB)
    first = np.array([10, 8, 8, 30, 0], np.int32)
    flags = example.flags.copy()
    flags[[0, 1], [9, 7]] |= SENTENCE
    key = keys(200)[counter_rng.uniform(keys(200), "exceeds", 1)[:, 0] >= 0.5][:5]
    example = example._replace(first_length=first, flags=flags)
    batch = objective.corrupt(example, key, VOCAB, 32)
    assert ((batch["token"] == VOCAB.eos_id).sum(axis=1) == [2, 2, 1, 1, 0]).all()
    assert ((batch["segment"] > 0).sum(axis=1) == [32, 23, 10, 32, 0]).all()
    assert (batch["token_type"].sum(axis=1) == [21, 14, 0, 0, 0]).all()
    with pytest.raises(UserError, match=r"model\.token_types is 1"):
        networks.build(model_options(token_types=1), objective.needs(VOCAB), VOCAB)
    with pytest.raises(UserError, match="format must be stream or segment_pair"):
        objectives.make_objective("electra", format="pair")


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_samples_follow_the_generator(temperature):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=256) * 2
    logits[200:] = -1e9  # as in the padding of a table
    many = readout(np.broadcast_to(logits, (400, 20, 256)))
    guess = sample(many, KEY, jnp.arange(400), temperature)
    count = np.bincount(np.asarray(guess).ravel(), minlength=256)
    assert not count[200:].any()
    p = np.exp(logits[:200] / temperature)
    expected = p / p.sum() * count.sum()
    common = expected > 5
    count = [*count[:200][common], count[:200][~common].sum()]
    expected = [*expected[common], expected[~common].sum()]
    assert stats.chisquare(count, expected).pvalue > SIGNIFICANCE


def test_samples_depend_on_the_example_and_not_on_the_batch(monkeypatch):
    logits = np.random.default_rng(0).normal(size=(6, 5, 256))
    example = jnp.array([3, 1, 4, 15, 9, 2])
    whole = sample(readout(logits), KEY, example, 1.0)
    assert len(np.unique(whole)) > 20
    rows = [sample(readout(logits[i::2]), KEY, example[i::2], 1.0) for i in (0, 1)]
    np.testing.assert_array_equal(whole[0::2], rows[0])
    np.testing.assert_array_equal(whole[1::2], rows[1])
    monkeypatch.setattr(electra, "CHUNK_LOGITS", 2 * 6 * 256)  # two slots at a time
    cut = jax.jit(lambda key: electra.sample(readout(logits), key, example, 1.0))(KEY)
    np.testing.assert_array_equal(whole, cut)


def test_writing_drops_unused_slots():
    token = jnp.arange(10, 18).reshape(2, 4)
    scored = jnp.array([[2, 0], [0, 0]])
    weight = jnp.array([[1.0, 0.0], [0.0, 0.0]])
    written = electra.write(token, scored, jnp.full((2, 2), 99), weight)
    np.testing.assert_array_equal(written, [[10, 11, 99, 13], [14, 15, 16, 17]])


def test_of_samples_at_one_position_the_floor_of_the_mean_is_written():
    token = jnp.arange(10, 18).reshape(2, 4)
    scored = jnp.array([[2, 2, 1, 0], [3, 3, 3, 0]])
    weight = jnp.array([[1.0, 1, 1, 0], [1, 1, 1, 0]])
    value = jnp.array([[40, 45, 7, 99], [5, 6, 9, 99]])
    written = electra.write_mean(token, scored, value, weight)
    np.testing.assert_array_equal(written, [[10, 7, 42, 13], [14, 15, 16, 6]])


def test_repeated_positions_count_twice_for_the_generator_and_once_for_the_rest():
    """Both samples of a position are right: its token is the original."""
    batch, example = corrupt([30] * 40, 32, rate=0.4, positions="repeated")
    assert (np.diff(batch["scored"], axis=1) == 0).any(axis=1).mean() > 0.5
    objective = objectives.make_objective("electra", rate=0.4, positions="repeated")
    right = 40.0 * jax.nn.one_hot(batch["target"], 128)
    seen = []
    generator = SimpleNamespace(
        states=lambda group, scored: None, readout=lambda states: readout(right)
    )
    discriminator = SimpleNamespace(
        states=lambda group, scored: seen.append(group["token"]) or group["token"],
        head=lambda name, states: jnp.zeros((*states.shape, 1)),
    )
    net = SimpleNamespace(generator=generator, discriminator=discriminator)

    @jax.jit
    def score(batch):
        return objective.loss(net, batch, KEY)[0], seen[-1]

    terms, token = score(on_device(batch))
    assert terms["generator"].weight == batch["weight"].sum()
    assert terms["discriminator"].weight == (batch["segment"] > 0).sum()
    assert terms["replaced"].total == 0
    np.testing.assert_array_equal(token[:, 1:31], example.token[:, :30])


def test_the_discriminator_reads_samples_and_labels_where_they_differ():
    batch, _ = corrupt([30, 30, 12, 0], 32)
    objective = objectives.make_objective("electra")
    favourite = batch["target"][0, 0]  # the generator always samples it
    logits = np.full((4, batch["target"].shape[1], 128), -1e9)
    logits[..., favourite] = 0.0

    @jax.jit
    def score(batch):
        seen = []
        generator = SimpleNamespace(
            states=lambda group, scored: None, readout=lambda states: readout(logits)
        )
        # It predicts that the favourite is replaced, wherever it occurs.
        discriminator = SimpleNamespace(
            states=lambda group, scored: seen.append(group["token"]) or group["token"],
            head=lambda name, states: jnp.where(states == favourite, 3.0, -3.0)[
                ..., None
            ],
        )
        net = SimpleNamespace(generator=generator, discriminator=discriminator)
        return objective.loss(net, batch, KEY)[0], seen[0]

    terms, seen = score(on_device(batch))
    original = batch["token"].copy()
    masked = np.zeros(original.shape, bool)
    row, slot = np.nonzero(batch["weight"])
    masked[row, batch["scored"][row, slot]] = True
    original[masked] = batch["target"][row, slot]
    token = np.where(masked, favourite, original)
    np.testing.assert_array_equal(seen, token)
    here = batch["segment"] > 0
    replaced = (token != original) & here
    assert 0 < replaced.sum() < masked.sum()  # a sample may equal the original
    predicted = (token == favourite) & here
    correct = (predicted == replaced)[here]
    loss = np.where(correct, np.log1p(np.exp(-3)), np.log1p(np.exp(3)))
    assert terms["discriminator"].coef == 50
    np.testing.assert_allclose(terms["discriminator"].total, loss.sum(), rtol=1e-5)
    assert terms["discriminator"].weight == here.sum()  # specials count, padding not
    assert terms["discriminator_accuracy"].total == correct.sum()
    assert terms["replaced"].total == replaced.sum()


def test_labels_follow_the_generators_distribution_on_a_toy_vocabulary():
    # Two masked positions, a vocabulary of four: all sixteen outcomes are enumerated.
    toy = np.array([5, 6, 7, 8])
    p = np.array([[0.4, 0.3, 0.2, 0.1], [0.05, 0.05, 0.6, 0.3]])
    logits = np.full((2, 128), -1e9)
    logits[:, toy] = np.log(p)
    original = np.array([[5, 7]], np.int32)
    batch = {
        "token": np.array([[1, VOCAB.mask_id, 6, VOCAB.mask_id, 2]], np.int32),
        "scored": np.array([[1, 3]], np.int32),
        "target": original,
        "weight": np.ones((1, 2), np.float32),
        "segment": np.ones((1, 5), np.int32),
    }
    count = 2000
    many = {k: np.repeat(v, count, axis=0) for k, v in batch.items()}
    many["example"] = np.arange(count)
    seen = []

    def states(group, scored):
        jax.debug.callback(lambda token: seen.append(token), group["token"])
        return group["token"]

    wide = np.broadcast_to(logits, (count, 2, 128))
    net = SimpleNamespace(
        generator=SimpleNamespace(
            states=lambda group, scored: None, readout=lambda states: readout(wide)
        ),
        discriminator=SimpleNamespace(
            states=states, head=lambda name, states: jnp.zeros((count, 5, 1))
        ),
    )
    objective = objectives.make_objective("electra")
    score = jax.jit(lambda batch: objective.loss(net, batch, KEY)[0])
    terms = score(on_device(many))
    jax.effects_barrier()
    token = np.asarray(seen[0])
    # Unmasked tokens stay; samples are in the generator's support.
    np.testing.assert_array_equal(
        token[:, [0, 2, 4]], np.repeat([[1, 6, 2]], count, axis=0)
    )
    drawn = token[:, [1, 3]] - 5
    assert ((drawn >= 0) & (drawn < 4)).all()
    found = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)
    expected = (p[0][:, None] * p[1]).ravel() * count
    assert stats.chisquare(found, expected).pvalue > SIGNIFICANCE
    # The label is 1 exactly where the token differs: 1 - p(original), on average.
    replaced = int((drawn + 5 != original).sum())
    assert terms["replaced"].total == replaced
    test = stats.binomtest(int((drawn[:, 0] != 0).sum()), count, 1 - p[0, 0])
    assert test.pvalue > SIGNIFICANCE
    # An uninformed discriminator has a loss of log 2 at each of the five positions.
    term = terms["discriminator"]
    np.testing.assert_allclose(term.total / term.weight, np.log(2), rtol=1e-5)
    assert term.weight == 5 * count


def test_the_discriminator_loss_has_no_gradient_for_the_generator():
    batch = on_device(corrupt([30, 12], 32)[0])
    objective = objectives.make_objective("electra")
    options = model_options(layers=1, width=32, heads=2, feedforward=32)
    network = networks.build(options, objective.needs(VOCAB), VOCAB)

    def make():
        net_loss = lambda net: objective.loss(net, batch, KEY)  # noqa: E731
        return networks.unbox(networks.init(network, net_loss, KEY))

    random = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: random.normal(0, 0.2, leaf.shape).astype(np.float32),
        jax.eval_shape(make),
    )

    @jax.jit
    def largest(params):
        def loss(params, name):
            net_loss = lambda net: objective.loss(net, batch, KEY)[0]  # noqa: E731
            return networks.apply(network, params, net_loss)[name].total

        return {
            (name, part): jnp.max(jnp.abs(ravel_pytree(gradient[part])[0]))
            for name in ("generator", "discriminator")
            for gradient in [jax.grad(loss)(params, name)]
            for part in ("generator", "discriminator")
        }

    sizes = largest(params)
    assert sizes["discriminator", "generator"] == 0
    assert sizes["discriminator", "discriminator"] > 0
    assert sizes["generator", "generator"] > 0
