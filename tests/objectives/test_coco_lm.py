"""COCO-LM: its crops, its copy gate, and the contrast of pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.objectives.contrastive.coco_lm import contrast_pairs
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab()


def corrupt(lengths, length=32, **fields):
    objective = objectives.make_objective("coco_lm", **fields)
    example = texts(length - 2, lengths, VOCAB)
    batch = objective.corrupt(example, keys(len(lengths)), VOCAB, length)
    rows = np.arange(len(lengths), dtype=np.int32)
    return objective, example, batch | {"example": rows}


def test_a_crop_is_nine_tenths_of_the_original_text():
    _, example, batch = corrupt([30, 20, 7, 1, 0] * 40)
    begins = set()
    for row, count in enumerate(example.length):
        size = max(min(count, 1), round(0.9 * count))
        crop = batch["crop_token"][row, 1 : size + 1]
        assert (batch["crop_segment"][row] > 0).sum() == (size + 2) * (count > 0)
        begin = [
            n
            for n in range(count - size + 1)
            if (example.token[row, n : n + size] == crop).all()
        ]
        assert begin or not count
        begins |= {(count, n) for n in begin}
        assert batch["crop_weight"][row] == (count > 0)
    assert {n for count, n in begins if count == 30} == {0, 1, 2, 3}


def test_each_vector_is_to_find_its_pair_among_all_others():
    """Equation 7 of the paper by loops; rows of weight 0 are no candidates."""
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 4, 6))
    weight = np.array([1, 1, 0, 1], np.float32)
    term, _ = contrast_pairs(jnp.asarray(one), jnp.asarray(other), weight, 0.5)
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)  # noqa: E731
    first, second = (unit(x)[weight > 0] for x in (one, other))
    vectors, total = np.concatenate([first, second]), 0.0
    for n in range(6):
        scores = np.exp(vectors @ vectors[n] / 0.5)
        total -= np.log(scores[(n + 3) % 6] / (scores.sum() - scores[n]))
    np.testing.assert_allclose(term.total / term.weight, total / 6, rtol=1e-5)


def test_the_copy_gate_learns_only_which_tokens_are_replaced():
    objective, _, batch = corrupt([10, 7], 12)
    batch = jax.tree.map(jnp.asarray, batch)
    options = model_options(layers=2, width=32, heads=2, feedforward=32)
    network = networks.build(options, objective.needs(VOCAB), VOCAB)
    key = jax.random.key(0)
    loss = lambda net: objective.loss(net, batch, key)[0]  # noqa: E731
    params = networks.unbox(networks.init(network, loss, key))

    @jax.jit
    def gradients(params):
        total = lambda params, name: networks.apply(network, params, loss)[name].total  # noqa: E731
        return {name: jax.grad(total)(params, name) for name in ("copy", "mlm")}

    found = gradients(params)
    size = {
        name: np.abs(grad["discriminator"]["head_replaced"]["out"]["kernel"]).max()
        for name, grad in found.items()
    }
    assert size["copy"] > 0 and size["mlm"] == 0
    assert np.abs(found["mlm"]["discriminator"]["stack"]["norm"]["scale"]).max() > 0
