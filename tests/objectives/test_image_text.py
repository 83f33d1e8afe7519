"""image_text: what is hidden of a picture, the specification's losses, matching."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from experiments.studies import nlvr
from research import networks, objectives
from research.contract.errors import UserError
from research.data.store import pictures
from research.objectives.images import losses, readers, regions, transport
from research.objectives.images.readers import boxes
from tests.testing import fast_key
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options
from tests.testing.objective_variants import NO_TOKENS, VL_BERT

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


PATCHES = {"region_rate": 0.3, "region_classes": "none", "region_regression": "l2"}
SEEN = {"box": "sinusoids", "text_reads": "picture", "region_regression": "l2"}


@pytest.mark.parametrize("fields", [BOXES, BOXES | SEEN, PATCHES])
def test_pixels_of_a_hidden_region_are_nowhere_in_the_batch(fields, monkeypatch):
    """Neither in its crop nor in those that overlap it, nor in the whole picture, but
    as a target; those of a region that is chosen and shown are."""
    joint = {"match": "joint", "replace_rate": 1e-9}
    objective, example = make(**fields | joint, region_mask_fraction=1.0)
    store = pictures.open_store("random")
    boxes = objective.regions_read(np.arange(32)).box[:, 1:]
    before = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    pixels, changed = store.pixels.copy(), 0
    for row in range(32):
        chosen = before["region_scored"][row]
        chosen = chosen[chosen > 0]
        for region in chosen - LENGTH - 1:
            x, y, right, below = np.rint(12 * boxes[row, region, :4]).astype(int)
            pixels[row, y:below, x:right] ^= 255
            changed += 1
    assert changed >= 32
    monkeypatch.setattr(pictures, "open_store", lambda _: store._replace(pixels=pixels))
    after = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    for name in before:
        if name == "region_pixels":
            assert (before[name] != after[name]).any()
        else:
            np.testing.assert_array_equal(before[name], after[name], name)
    shown, _ = make(**fields | joint, region_mask_fraction=0.0)
    found = shown.corrupt(example, keys(32), VOCAB, LENGTH)
    assert not np.array_equal(before["pixels"], found["pixels"])


@pytest.mark.parametrize("fields", [BOXES, PATCHES])
def test_a_replaced_region_has_the_pixels_of_one_of_the_split(fields):
    objective, example = make(
        **fields | {"match": "none"},
        region_mask_fraction=0.0,
        region_random_fraction=1.0,
    )
    batch = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    every = objective.regions_read(np.arange(32))
    crops = {crop.tobytes() for crop in every.values[:, 1:][every.here[:, 1:]]}
    own = changed = 0
    for row in range(32):
        for at in batch["region_scored"][row][batch["region_scored"][row] > 0] - LENGTH:
            assert batch["pixels"][row, at].tobytes() in crops
            changed += (batch["pixels"][row, at] != every.values[row, at]).any()
            own += 1
    assert own >= 32 and changed > 0.8 * own


def test_crops_are_those_of_the_boxes():
    store = pictures.open_store("random")
    none = np.zeros((1, 3), bool)
    found = boxes.Reader(patch=4).read(store, np.array([3]), none)
    for n in np.flatnonzero(found.here[0, 1:]):
        x, y, right, below = np.rint(12 * store.boxes[3, n]).astype(int)
        crop = store.pixels[3, y:below, x:right].reshape(-1)
        np.testing.assert_array_equal(found.values[0, 1 + n], crop)
        area = found.box[0, 1 + n, 4]
        assert area == pytest.approx((right - x) * (below - y) / 144)
    assert found.box[0, 0].tolist() == [0, 0, 1, 1, 1]


def test_a_box_of_the_specification():
    """NLVR's square at 13, 80 of size 20 in the second box, at 150 of 400 x 100."""
    square = np.array([[[163, 80, 183, 100]]]) / [400, 100, 400, 100]
    found = readers.with_whole(square)[0, 1]
    np.testing.assert_allclose(found, [0.4075, 0.8, 0.4575, 1.0, 0.01], rtol=1e-6)


def test_waves_of_that_box():
    """Of its centre, width and height in percent: 43.25, 90, 5, 20."""
    box = jnp.array([[0.4075, 0.8, 0.4575, 1.0, 0.01]])
    found = regions.sinusoids(box)[0].reshape(4, 2, 256)
    percent = np.array([43.25, 90, 5, 20])
    np.testing.assert_allclose(found[:, 0, 0], np.sin(percent), atol=1e-4)
    np.testing.assert_allclose(found[:, 1, 0], np.cos(percent), atol=1e-4)
    last = percent / 1000 ** (255 / 256)
    np.testing.assert_allclose(found[:, 0, 255], np.sin(last), atol=1e-6)


def test_the_regression_of_two_values():
    error, weight = jnp.array([[[0.5, -2.0], [9, 9]]]), jnp.array([[1.0, 0]])
    for name, total in (("l2", (0.25 + 4) / 2), ("smooth_l1", (0.125 + 1.5) / 2)):
        term = losses.regression(name, error, jnp.zeros_like(error), weight)
        assert (float(term.total), float(term.weight)) == (total, 1), name


def test_classes_are_distributions_where_the_pictures_have_them(monkeypatch):
    store = pictures.open_store("random")
    draw = np.random.default_rng(0).dirichlet(np.ones(5), store.classes.shape)
    soft = store._replace(distributions=draw.astype(np.float32))
    monkeypatch.setattr(pictures, "open_store", lambda _: soft)
    objective, example = make(**BOXES | {"match": "none"})
    batch = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    row, slot = np.nonzero(batch["region_weight"])
    region = batch["region_scored"][row, slot] - LENGTH - 1
    found = batch["region_distribution"]
    np.testing.assert_allclose(found[row, slot], draw[row, region], rtol=1e-6)
    assert not found[batch["region_weight"] == 0].any() and len(row) >= 32
    hard, _ = make(**BOXES, region_classes="class")
    assert "region_distribution" not in hard.batch_spec(LENGTH)


def test_words_read_the_whole_picture_beside_them():
    objective, example = make(**BOXES | {"text_reads": "picture"})
    example = example._replace(length=np.full(32, 5, np.int32))
    batch = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    feature = np.asarray(objective.group(batch)["feature"])
    whole = np.broadcast_to(feature[:, None, LENGTH], feature[:, :7].shape)
    np.testing.assert_array_equal(feature[:, :7], whole)
    assert not feature[:, 7:LENGTH].any() and whole.any()
    streams = model_options(network="two_streams", norm_placement="post", token_types=2)
    with pytest.raises(UserError, match=r"set objective.text_reads=words"):
        networks.build(streams, objective.needs(VOCAB), VOCAB)


def test_the_loss_of_regions_of_the_specification():
    logits = jnp.array([[[2.0, 1, 0], [0, 0, 0]]])
    target = jnp.array([[[0.7, 0.2, 0.1], [0, 1, 0]]])
    one = losses.region_loss(logits, target, jnp.array([[1.0, 0]]))
    assert float(one.total) == pytest.approx(0.005787412, rel=1e-4)
    both = losses.region_loss(logits, target, jnp.ones((1, 2)))
    assert float(both.total / both.weight) == pytest.approx(0.552199850, rel=1e-6)
    hard = losses.region_loss(
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


def _fields(variant):
    return {name: value for name, value in variant.items() if name != "model"}


def leave_out_twins(batch):
    """Weight 0 for regions of a picture that have one box, and so one input."""
    at = np.maximum(batch["region_scored"] - LENGTH, 0)[..., None]
    box = np.take_along_axis(batch["box"], at, axis=1)
    same = (box[:, :, None] == box[:, None]).all(axis=-1)
    same &= (batch["region_weight"] > 0)[:, None]
    batch["region_weight"][same.sum(axis=-1) > 1] = 0


STREAMS = {"network": "two_streams", "norm_placement": "post", "co_layers": 1}


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({"alignment": 0.1}, {}),
        (BOXES, {}),
        pytest.param(BOXES | {"pool": "product"}, STREAMS, marks=pytest.mark.long),
        pytest.param(_fields(VL_BERT), VL_BERT["model"], marks=pytest.mark.long),
        pytest.param(
            _fields(NO_TOKENS), STREAMS | NO_TOKENS["model"], marks=pytest.mark.long
        ),
    ],
)
def test_losses_begin_at_ln_classes_and_32_pairs_are_learnt(fields, more):
    objective, example = make(**fields)
    batch = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    if objective.classified == "all":
        leave_out_twins(batch)
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
    classes["answer"] = len(VOCAB.labels)
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
        ({"region_rate": 0.1}, "region_rate needs regions boxes or features, or"),
        (BOXES | {"region_classes": "none"}, "region_rate needs region_classes or"),
        (BOXES | {"region_random_fraction": 0.2}, "region_mask_fraction"),
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
    with pytest.raises(
        UserError, match=r"objective.images have no boxes with classes; set it"
    ):
        objective.corrupt(example, keys(32), VOCAB, LENGTH)


def test_texts_without_answers_are_refused():
    objective, example = make(answers="label")
    with pytest.raises(UserError, match="none; set it to none, or name a column"):
        objective.corrupt(example, keys(32), VOCAB._replace(labels=()), LENGTH)


def test_features_of_a_hidden_region_are_nowhere_in_the_batch(monkeypatch):
    """Neither its own nor the mean that stands for the whole picture."""
    fields = {"regions": "features", "region_rate": 0.4, "match": "none"}
    objective, example = make(**fields, region_mask_fraction=1.0)
    store = pictures.open_store("random")
    before = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    features, changed = store.features.copy(), 0
    for row in range(32):
        chosen = before["region_scored"][row][before["region_weight"][row] > 0]
        features[row, chosen - LENGTH - 1] += 1
        changed += len(chosen)
    assert changed >= 32 and before["pixels"].dtype == np.float32
    changed_store = store._replace(features=features)
    monkeypatch.setattr(pictures, "open_store", lambda _: changed_store)
    after = objective.corrupt(example, keys(32), VOCAB, LENGTH)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], name)
    shown = make(**fields, region_mask_fraction=0.0)[0]
    assert not np.array_equal(
        before["pixels"], shown.corrupt(example, keys(32), VOCAB, LENGTH)["pixels"]
    )
    missing = store._replace(features=None)
    monkeypatch.setattr(pictures, "open_store", lambda _: missing)
    with pytest.raises(UserError, match=r"give palimpsest images --features=F.npz"):
        objective.needs(VOCAB)


def test_answers_of_one_picture_are_no_independent_ones(tmp_path):
    """Of two pictures, all right and all wrong, the interval is from 0 to 1."""
    rows = [{"text": f"text {n}", "image": n // 500} for n in range(1000)]
    items = [
        {"texts": [row["text"]], "prediction": "true", "gold": ["true", "false"][n]}
        for row, n in ((row, row["image"]) for row in rows)
    ]
    captions, predictions = tmp_path / "captions", tmp_path / "predictions"
    captions.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    predictions.write_text("\n".join(map(json.dumps, items)), "utf-8")
    found = nlvr.answers(predictions, captions)
    assert found["accuracy"] == 0.5 and found["interval"] == [0, 1]
    predictions.write_text("\n".join(map(json.dumps, items[1:])), "utf-8")
    with pytest.raises(ValueError, match="does not have the texts"):
        nlvr.answers(predictions, captions)
