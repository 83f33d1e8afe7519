"""clip: the specification's losses, its scale, one loss on any mesh, and retrieval."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from research import networks, objectives
from research.contract.batch import input_group
from research.contract.errors import UserError
from research.data.store import pictures
from research.interop.partial_restore import restore_params
from research.objectives.images import clip, pixels
from research.objectives.layout.mean_state import mean_state
from research.objectives.losses import contrastive
from research.optimize.optimizer import is_frozen
from research.predictions.retrieval import pair_ranks
from tests.testing import fast_key, tiny_runs
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options
from tests.testing.tiny_runs import tiny_config

VOCAB = vocab(200)
SMALL = {"layers": 1, "width": 64, "heads": 4, "feedforward": 128, "max_length": 16}


def make(num=32, length=14, **fields):
    """The objective, its network, and a batch of captions of different pictures."""
    objective = objectives.make_objective(
        "clip", **{"images": "random", "patch": 4, "width": 64} | fields
    )
    options = model_options(network="two_towers", init="gpt2", **SMALL)
    net = networks.build(options, objective.needs(VOCAB), VOCAB)
    example = texts(length - 2, [length - 2] * num, VOCAB)
    number = np.broadcast_to(np.arange(num)[:, None], example.token.shape)
    example = example._replace(arrays={"image": number})
    return objective, net, objective.corrupt(example, keys(num), VOCAB, length)


def loss_of(objective, net, batch):
    def run(params):
        key = fast_key.key(1)
        terms = networks.apply(net, params, lambda n: objective.loss(n, batch, key)[0])
        return terms["contrast"].total / terms["contrast"].weight, terms

    return run


@pytest.mark.parametrize(
    ("scale", "expected"), [(1, 0.998699925), (1 / 0.07, 2.809544140), (100, 19.526214)]
)
def test_the_loss_of_the_specification(scale, expected):
    """Of cosines (1, r, 0), (0, r, 1), (r, 1, r) with r the root of one half."""
    image = jnp.array([[1.0, 0], [0, 3], [2, 2]])
    text = jnp.array([[2.0, 0], [1, 1], [0, 1]])
    term, right = contrastive.in_batch(
        image, text, jnp.ones(3), temperature=1 / scale, symmetric=True
    )
    assert float(term.total / 3) == pytest.approx(expected, rel=1e-6)
    assert float(right) == 1


def test_the_loss_begins_at_ln_batch_and_32_pairs_are_learnt():
    objective, net, batch = make()
    score = lambda n: objective.loss(n, batch, fast_key.key(1))[0]  # noqa: E731
    init = jax.jit(lambda key: networks.unbox(networks.init(net, score, key)))
    params, optimizer = init(fast_key.key(0)), optax.adam(2e-3)
    grad = jax.value_and_grad(loss_of(objective, net, batch), has_aux=True)

    @jax.jit
    def step(params, state):
        scored, grads = grad(params)
        updates, state = optimizer.update(grads, state)
        return scored, optax.apply_updates(params, updates), state

    (first, terms), params, state = step(params, optimizer.init(params))
    assert float(first) == pytest.approx(np.log(32), rel=0.1)
    assert float(terms["scale"].total / terms["scale"].weight) == pytest.approx(
        1 / 0.07
    )
    for _ in range(300):
        (loss, terms), params, state = step(params, state)
        if float(loss) < 0.1:
            break
    assert float(loss) < 0.1 and float(terms["contrast_accuracy"].total) == 32


def test_a_scale_beyond_its_bounds_goes_back_alone():
    grad = jax.grad(lambda x, sign: sign * clip.within(x, 0.0, 1.0))
    for x, sign, expected in [
        (0.5, 1, 1),
        (2, 1, 1),
        (2, -1, 0),
        (-1, 1, 0),
        (-1, -1, -1),
    ]:
        assert float(grad(float(x), float(sign))) == expected


def test_patches_are_cut_row_by_row():
    image = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(1, 4, 6, 3)
    cut = pixels.patches(image, 2)
    assert cut.shape == (1, 6, 12)
    for n, (y, x) in enumerate(np.ndindex(2, 3)):
        block = image[0, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2]
        np.testing.assert_array_equal(cut[0, n], block.reshape(-1))
    white = pixels.scaled(jnp.full((1, 12), 255, jnp.uint8), pixels.HALF)
    assert (np.asarray(white) == 1).all()


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_a_vector_depends_on_its_own_side_alone(pool):
    """On all pixels of the picture, and on the tokens up to the end of the text."""
    objective, net, batch = make(num=2, pool=pool)
    read = lambda n: objective.predictions(n, batch)  # noqa: E731
    init = jax.jit(lambda key: networks.unbox(networks.init(net, read, key)))
    params = init(fast_key.key(0))

    @jax.jit
    def vectors(image_pixels):
        changed = batch | {"image_pixels": image_pixels}
        run = lambda n: objective.predictions(n, changed)  # noqa: E731
        return networks.apply(net, params, run)

    before = vectors(batch["image_pixels"])
    for patch in range(9):
        changed = batch["image_pixels"].copy()
        changed[0, patch] ^= 255
        after = vectors(changed)
        moved = np.abs(after["image"] - before["image"]).max(axis=1)
        assert moved[0] > 1e-4 and moved[1] == 0
        np.testing.assert_array_equal(after["text"], before["text"])


def test_a_tower_of_texts_starts_from_a_run_of_texts_and_can_stay_so(tmp_path):
    folder = tiny_runs.write_corpus(tmp_path)
    trained = tiny_config(folder, "mlm", **{"model.layers": 2})
    source, state, vocabulary = tiny_runs.save_untrained(tmp_path / "texts", trained)
    fields = {"images": "random", "patch": 4, "width": 8, "pool": "mean"}
    objective = objectives.make_objective("clip", **fields)
    options = dataclasses.asdict(trained.model)
    towers = model_options(**options, network="two_towers")
    needs = objective.needs(vocabulary.vocab)
    net = networks.build(towers, needs, vocabulary.vocab)
    example = texts(10, [10, 4], VOCAB)
    example = example._replace(arrays={"image": np.zeros((2, 10), np.int32)})
    batch = objective.corrupt(example, keys(2), VOCAB, 12)
    read = lambda n: objective.predictions(n, batch)  # noqa: E731
    ours = networks.unbox(networks.init(net, read, fast_key.key(0)))
    ours = jax.tree.map(jnp.asarray, ours)
    found, missing = restore_params(
        str(source), "", ours, vocabulary=vocabulary.sha256, num_pieces=0
    )
    assert [name for name in missing if not name.startswith("image/")] == [
        "log_scale",
        "text/head_vector/out/kernel",
    ]
    for part in ("token", "embeddings", "stack"):
        own = state.params[part]
        jax.tree.map(np.testing.assert_array_equal, found["text"][part], own)
    frozen = is_frozen(found, "text/token,text/embeddings,text/stack")
    kept = {n for n, tree in frozen["text"].items() if all(jax.tree.leaves(tree))}
    assert kept == {"token", "embeddings", "stack"}


def test_stored_vectors_of_captions_are_the_states_of_their_tower(monkeypatch):
    """The loss and its gradients are those of tokens; the tower itself has none."""
    objective, net, batch = make(num=8, pool="mean")
    states = lambda n: mean_state(n.text.states(input_group(batch)), batch["segment"])  # noqa: E731
    score = lambda n: objective.loss(n, batch, fast_key.key(1))[0]  # noqa: E731
    params = networks.unbox(networks.init(net, score, fast_key.key(0)))
    vectors = np.asarray(networks.apply(net, params, states))
    store = pictures.open_store("random")._replace(caption_vectors=vectors[::-1])
    monkeypatch.setattr(pictures, "open_store", lambda name: store)
    stored = dataclasses.replace(objective, captions="vectors")
    example = texts(12, [12] * 8, VOCAB)
    number = np.broadcast_to(np.arange(8)[:, None], example.token.shape)
    arrays = {"image": number, "vector": 7 - number}
    given = example._replace(arrays=arrays)
    read = stored.corrupt(given, keys(8), VOCAB, 14)
    (loss, _), grads = jax.value_and_grad(loss_of(stored, net, read), has_aux=True)(
        params
    )
    (expected, _), whole = jax.value_and_grad(
        loss_of(objective, net, batch), has_aux=True
    )(params)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    for part in ("image", "log_scale"):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
            grads[part],
            whole[part],
        )
    assert not any(map(jnp.any, jax.tree.leaves(grads["text"]["stack"])))
    assert jnp.any(grads["text"]["head_vector"]["out"]["kernel"])
    for vector in (-1, 8):
        wrong = example._replace(arrays=arrays | {"vector": 0 * number + vector})
        with pytest.raises(UserError, match="give palimpsest images --caption-vectors"):
            stored.corrupt(wrong, keys(8), VOCAB, 14)


def test_ranks_of_pairs():
    """Of two captions of one picture the better counts; ties have the mean rank."""
    image = np.array([[1.0, 0], [1, 0], [0, 1], [9, 9]])
    text = np.array([[0.6, 0.8], [1, 0], [0, 1], [1, 0]])
    picture, weight = np.array([0, 0, 1, 2]), np.array([1, 1, 1, 0.0])
    ranks = pair_ranks(image, text, picture, weight)
    assert ranks.tolist() == [[1, 2], [1, 1], [1, 1], [1, 1]]
    same = pair_ranks(0 * image + 1, 0 * text + 1, np.arange(4), np.ones(4))
    assert (same == 2.5).all()


def test_patches_that_do_not_fill_a_picture_are_refused():
    with pytest.raises(UserError, match=r"objective.patch=5 must divide the 12 x 12"):
        objectives.make_objective("clip", images="random", patch=5).needs(VOCAB)
