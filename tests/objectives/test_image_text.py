"""image_text: what is hidden of a picture, the specification's losses, matching."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from research import networks, objectives
from research.contract.errors import UserError
from research.data.store import pictures
from research.objectives.images import image_text, regions, transport
from tests.testing import fast_key
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab(200)
LENGTH = 14
BOXES = {"regions": "boxes", "box": "corners", "region_rate": 0.4, "match": "joint"}


def make(num=32, **fields):
    objective = objectives.make_objective(
        "image_text", **{"images": "random", "patch": 4} | fields
    )
    example = texts(LENGTH - 2, [LENGTH - 2] * num, VOCAB)
    number = np.broadcast_to(np.arange(num)[:, None], example.token.shape)
    return objective, example._replace(arrays={"image": number})


def test_pixels_of_a_hidden_region_are_nowhere_in_the_batch(monkeypatch):
    """Neither in its crop nor in those that overlap it, nor in the whole picture;
    those of a region that is chosen and shown are."""
    objective, example = make(**BOXES, region_mask_fraction=1.0, replace_rate=1e-9)
    store = pictures.open_store("random")
    before = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    pixels, changed = store.pixels.copy(), 0
    for row in range(32):
        chosen = before["region_scored"][row][before["region_weight"][row] > 0]
        for region in chosen - LENGTH - 1:
            x, y, right, below = np.rint(12 * store.boxes[row, region]).astype(int)
            pixels[row, y:below, x:right] ^= 255
            changed += 1
    assert changed >= 32
    monkeypatch.setattr(pictures, "open_store", lambda _: store._replace(pixels=pixels))
    after = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], name)
    shown, _ = make(**BOXES, region_mask_fraction=0.0, replace_rate=1e-9)
    found = shown.corrupt(example, keys(32), VOCAB, LENGTH)
    assert not np.array_equal(before["pixels"], found["pixels"])


def test_crops_are_those_of_the_boxes():
    store = pictures.open_store("random")
    none = np.zeros((1, 3), bool)
    found = regions.read_boxes(store, np.array([3]), 4, none)
    for n in np.flatnonzero(found.here[0, 1:]):
        x, y, right, below = np.rint(12 * store.boxes[3, n]).astype(int)
        crop = store.pixels[3, y:below, x:right].reshape(-1)
        np.testing.assert_array_equal(found.pixels[0, 1 + n], crop)
        area = found.box[0, 1 + n, 4]
        assert area == pytest.approx((right - x) * (below - y) / 144)
    assert found.box[0, 0].tolist() == [0, 0, 1, 1, 1]


def test_a_box_of_the_specification():
    """NLVR's square at 13, 80 of size 20 in the second box, at 150 of 400 x 100."""
    boxes = np.array([[[163, 80, 183, 100]]]) / [400, 100, 400, 100]
    found = regions._with_whole(boxes)[0, 1]
    np.testing.assert_allclose(found, [0.4075, 0.8, 0.4575, 1.0, 0.01], rtol=1e-6)


def test_the_loss_of_regions_of_the_specification():
    logits = jnp.array([[[2.0, 1, 0], [0, 0, 0]]])
    target = jnp.array([[[0.7, 0.2, 0.1], [0, 1, 0]]])
    one = image_text.region_loss(logits, target, jnp.array([[1.0, 0]]))
    assert float(one.total) == pytest.approx(0.005787412, rel=1e-4)
    both = image_text.region_loss(logits, target, jnp.ones((1, 2)))
    assert float(both.total / both.weight) == pytest.approx(0.552199850, rel=1e-6)
    hard = image_text.region_loss(
        logits, jnp.array([[[1.0, 0, 0], [0, 0, 0]]]), jnp.array([[1.0, 0]])
    )
    assert float(hard.total) == pytest.approx(0.407605964, rel=1e-6)


@pytest.mark.parametrize("match", ["joint", "separate"])
def test_label_and_losses_of_a_pair_that_does_not_match(match):
    _, example = make(400)
    example = example._replace(arrays={"image": example.arrays["image"] % 40})
    found = {}
    for label in ("matched", "replaced"):
        for mismatched in ("kept", "dropped"):
            objective, _ = make(match=match, match_label=label, mismatched=mismatched)
            batch = objective.corrupt(example, keys(400), VOCAB, LENGTH)
            found[label, mismatched] = batch
    one, other = found["matched", "kept"], found["replaced", "dropped"]
    assert (one["match_label"] == 1 - other["match_label"]).all()
    assert 0.4 < one["match_label"].mean() < 0.6
    replaced = one["match_label"] == 0
    own = found["matched", "kept"]["pixels"]
    right, _ = make(match="none")
    alone = right.corrupt(example, keys(400), VOCAB, LENGTH)["pixels"]
    differs = (own != alone).any(axis=(1, 2))
    scored = {key: (batch["weight"] > 0).any(axis=1) for key, batch in found.items()}
    assert scored["matched", "kept"].all()
    if match == "joint":
        assert (differs == replaced).all()
        assert (scored["replaced", "dropped"] == ~replaced).all()
    else:
        assert not differs.any() and scored["replaced", "dropped"].all()
        assert ((one["match_pixels"] != alone).any(axis=(1, 2)) == replaced).all()
        assert (one["match_token"] != one["token"]).any()


def test_transport_of_equal_weights():
    """Words and patches that are the same vectors, in another order, cost nothing;
    where all costs are the same, so is the cost of the plan."""
    vectors = jnp.eye(6)[None, :4]
    there = jnp.ones((1, 4), bool)
    same = transport.distance(vectors, vectors[:, ::-1], there, there)
    assert float(same[0]) < 1e-3
    apart = transport.distance(vectors, jnp.eye(6)[None, 4:], there, there[:, :2])
    assert float(apart[0]) == pytest.approx(1, rel=1e-5)
    padded = transport.distance(
        vectors, vectors[:, ::-1], there, there.at[0, 3].set(False)
    )
    assert 0.2 < float(padded[0]) < 0.3  # the first word has a third and no patch


STREAMS = {"network": "two_streams", "norm_placement": "post", "co_layers": 1}


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({"alignment": 0.1}, {}),
        (BOXES, {}),
        pytest.param(BOXES | {"pool": "product"}, STREAMS, marks=pytest.mark.long),
    ],
)
def test_losses_begin_at_ln_classes_and_32_pairs_are_learnt(fields, more):
    objective, example = make(**fields)
    batch = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    options = {"layers": 2, "width": 64, "heads": 4, "feedforward": 128}
    options |= {"max_length": 40, "token_types": 2} | more
    net = networks.build(model_options(**options), objective.needs(VOCAB), VOCAB)
    score = lambda n: objective.loss(n, batch, fast_key.key(1))[0]  # noqa: E731
    init = jax.jit(lambda key: networks.unbox(networks.init(net, score, key)))
    params, optimizer = init(fast_key.key(0)), optax.adam(2e-3)

    def run(params):
        terms = networks.apply(net, params, score)
        means = {name: t.total / t.weight for name, t in terms.items()}
        return sum(terms[n].coef * means[n] for n in terms), means

    @jax.jit
    def step(params, state):
        (_, means), grads = jax.value_and_grad(run, has_aux=True)(params)
        updates, state = optimizer.update(grads, state)
        return means, optax.apply_updates(params, updates), state

    first, params, state = step(params, optimizer.init(params))
    classes = {"mlm": VOCAB.size, "match": 2, "region": 5}
    for name in first.keys() & classes.keys():
        assert float(first[name]) == pytest.approx(np.log(classes[name]), rel=0.1), name
    for _ in range(200):
        means, params, state = step(params, state)
        accuracies = [means[n] for n in means if "accuracy" in n]
        if min(map(float, accuracies)) == 1:
            break
    assert min(map(float, accuracies)) > 0.97, {n: float(x) for n, x in means.items()}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"region_rate": 0.1}, "region_rate needs regions boxes: patches have no"),
        ({"match": "joint", "alignment": 1.0}, "alignment needs match separate, not"),
        ({"mask_fraction": 0.8, "random_fraction": 0.3}, "mask_fraction"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(fields, words):
    with pytest.raises(UserError, match=words):
        objectives.make_objective("image_text", **fields)


def test_boxes_without_classes_are_refused(monkeypatch):
    objective, example = make(**BOXES)
    store = pictures.open_store("random")._replace(class_names=())
    monkeypatch.setattr(pictures, "open_store", lambda _: store)
    with pytest.raises(UserError, match=r"objective.images have none; set it to 0"):
        objective.corrupt(example, keys(32), VOCAB, LENGTH)
