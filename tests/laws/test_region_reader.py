"""The contract of every reader of pictures; modules are found by listing the folder."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from launch.key_docs import keys_of
from launch.reports.picture_views import panel, panel_html
from research import objectives
from research.contract.fields import check
from research.data.store import pictures
from research.objectives.images.picture_rows import PictureRows
from research.objectives.images.readers import BOX, FOLDER, Drawing
from research.objectives.images.regions import BOXES
from tests.testing.example_batches import keys, texts, vocab

NAMES = FOLDER.names()
VOCAB = vocab(200)
LENGTH, NUM = 14, 32
STORE = pictures.open_store("random")
NUMBER = np.arange(NUM)
ROW = {"images": "random", "match": "joint", "replace_rate": 1e-9}


def fields_of(name):
    return {"regions": name} | FOLDER.part_class(name, "regions").example


def make_reader(name):
    return FOLDER.make(fields_of(name), "regions")


def make_objective(name, objective="image_text", **more):
    return objectives.make_objective(objective, **ROW | fields_of(name) | more)


def example():
    found = texts(LENGTH - 2, [LENGTH - 2] * NUM, VOCAB)
    number = np.broadcast_to(NUMBER[:, None], found.token.shape)
    return found._replace(arrays={"image": number})


def none_hidden(reader, num=NUM):
    return np.zeros((num, reader.num_regions(STORE)), bool)


def some_hidden(reader):
    """About half of the regions that are there, at least one of each picture."""
    there = reader.there(STORE, NUMBER)
    drawn = np.random.default_rng(0).random(there.shape) < 0.5
    return there & (drawn | (np.arange(there.shape[1]) == there.argmax(1)[:, None]))


each_reader = pytest.mark.parametrize("name", NAMES)


@each_reader
def test_its_fields_are_keys_of_what_reads_pictures(name):
    """They are told where they are not read, and declared once."""
    cls = FOLDER.part_class(name, "objective.regions")
    check(cls())
    assert dataclasses.is_dataclass(cls) and hash(cls()) is not None and cls.__doc__
    reading = [
        each
        for each in map(objectives.objective_class, objectives.names())
        if issubclass(each, PictureRows)
    ]
    assert len(reading) >= 2
    for each in reading:
        declared = {field.name: field for field in dataclasses.fields(each)}
        meanings = {key.name: key.meaning for key in keys_of(each, "")}
        assert name in declared["regions"].metadata["values"]
        for field in dataclasses.fields(cls):
            metadata = declared[field.name].metadata
            assert "parts" in metadata, f"{each} has its own field {field.name}"
            needed, values = metadata["read_with"]
            assert needed == "regions" and name in values
            assert f"{name}: " in meanings[field.name], "a field has a comment"
        changed = {
            field.name: field.default + 1
            for field in dataclasses.fields(cls)
            if type(field.default) is int
        }
        made = each(regions=name, **changed).reader
        assert made == cls(**changed)


@each_reader
def test_what_is_read_is_as_it_says(name):
    reader, hidden = make_reader(name), some_hidden(make_reader(name))
    count, width = reader.num_regions(STORE), reader.num_values(STORE)
    found = reader.read(STORE, NUMBER, hidden)
    assert found.values.shape == (NUM, 1 + count, width), "values have another shape"
    assert found.values.dtype == reader.dtype
    assert found.box.shape == (NUM, 1 + count, BOX)
    assert found.box.dtype == np.float32
    assert found.here.shape == (NUM, 1 + count) and found.here[:, 0].all()
    np.testing.assert_array_equal(found.here[:, 1:], reader.there(STORE, NUMBER))
    assert found.here[:, 1:].any(axis=1).all()
    np.testing.assert_array_equal(found.box[:, 0], np.ones((NUM, 1)) * [0, 0, 1, 1, 1])
    box = found.box[found.here]
    assert (box >= 0).all() and (box <= 1).all() and (box[:, 2:4] > box[:, :2]).all()
    assert not found.box[~found.here].any(), "a region that is not there has a box"
    if reader.of_boxes:
        np.testing.assert_array_equal(found.box[:, 1:, :4], STORE.boxes[:NUM])
    if not reader.reads_whole:
        assert not found.values[:, 0].any(), "a class token has values"
    values = reader.scaled(jnp.asarray(found.values))
    assert values.dtype == np.float32 and np.isfinite(values).all()
    assert not np.asarray(values)[:, 1:][hidden].round(2).any(), "hidden values are 0"


@each_reader
def test_a_picture_is_read_alone(name):
    reader = make_reader(name)
    hidden = some_hidden(reader)
    whole = reader.read(STORE, NUMBER, hidden)
    for part in (slice(0, 1), slice(5, 9), slice(None, None, -1)):
        found = reader.read(STORE, NUMBER[part], hidden[part])
        for one, other in zip(found, whole, strict=True):
            np.testing.assert_array_equal(one, other[part])
    plain = reader.read(STORE, NUMBER, none_hidden(reader))
    for row, region in np.argwhere(plain.here[:, 1:]):
        found = reader.read_one(STORE, row, region)
        np.testing.assert_array_equal(found, plain.values[row, 1 + region])


def changed_where(reader, region):
    """The store with other pixels and features wherever `region` [NUM, R] is."""
    box = reader.read(STORE, NUMBER, none_hidden(reader)).box[:, 1:]
    pixels, features = STORE.pixels.copy(), STORE.features.copy()
    inside = np.zeros(pixels.shape[:3], bool)
    for row, n in np.argwhere(region):
        x, y, right, below = np.rint(12 * box[row, n, :4]).astype(int)
        inside[row, y:below, x:right] = True
        if reader.of_boxes:
            features[row, n] += 1
    pixels[inside] ^= 255
    return STORE._replace(pixels=pixels, features=features)


@each_reader
def test_nothing_tells_of_a_hidden_region_and_each_other_one_is_read(name):
    reader = make_reader(name)
    hidden = some_hidden(reader)
    before = reader.read(STORE, NUMBER, hidden)
    after = reader.read(changed_where(reader, hidden), NUMBER, hidden)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other, "a hidden region is read")
    shown = reader.there(STORE, NUMBER)
    nothing = none_hidden(reader)
    before = reader.read(STORE, NUMBER, nothing).values
    after = reader.read(changed_where(reader, shown), NUMBER, nothing).values
    differs = (before != after).any(axis=-1)
    assert differs[:, 1:][shown].all(), "a region is not read"
    assert differs[:, 0].all() == reader.reads_whole


@each_reader
def test_a_drawing_shows_what_is_read(name):
    """Pixels of the picture, in which a hidden region is grey."""
    reader = make_reader(name)
    hidden = some_hidden(reader)
    plain, found = (
        [reader.drawing(values, STORE) for values in reader.read(*read).values]
        for read in ((STORE, NUMBER, none_hidden(reader)), (STORE, NUMBER, hidden))
    )
    if None in (*plain, *found):
        assert plain == found == [None] * NUM
        assert reader.dtype != np.uint8, "values are pixels, and no drawing shows them"
        return
    for row, (one, other) in enumerate(zip(plain, found, strict=True)):
        assert type(one) is type(other) is Drawing
        assert len(one.crops) in (0, hidden.shape[1])
        for image in (one.whole, *one.crops):
            assert image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3
        assert (one.whole != other.whole).any()
        for n, crop in enumerate(other.crops):
            grey = (crop == crop[0, 0]).all()
            assert grey or not hidden[row, n]


@each_reader
@pytest.mark.parametrize("box", ["none", "sinusoids"])
def test_a_row_of_it_is_read_by_networks_and_drawn(name, box):
    """Beside a caption, with regions that are predicted, as `show` draws it."""
    asked = {"region_rate": 0.4, "region_mask_fraction": 1.0, "box": box}
    asked |= {"region_regression": "l2"}
    classes = "class" if make_reader(name).of_boxes else "none"
    objective = make_objective(name, **asked, region_classes=classes)
    batch = objective.corrupt(example(), keys(NUM), VOCAB, LENGTH)
    specs = objective.batch_spec(LENGTH)
    assert {n: (a.shape[1:], a.dtype) for n, a in batch.items()} == {
        n: (spec.shape, np.dtype(spec.dtype)) for n, spec in specs.items()
    }
    feature = objective.group(batch)["feature"]
    width = objective.needs(VOCAB).input_features
    shape = (NUM, LENGTH + objective.num_positions(), width)
    assert feature.shape == shape and np.isfinite(feature).all()
    assert (batch["region_pixels_weight"].sum(axis=1) >= 1).all()
    for row in range(4):
        found = panel(batch, row, objective, row)
        page = panel_html(found)
        count = objective.reader.there(STORE, np.array([row])).sum()
        assert found.pictures[0].title == f"picture {row} of the caption"
        assert len(found.pictures[0].regions) == count
        reads = objective.reader.dtype == np.uint8
        assert len(found.pictures) == 1 + reads and page.count("<svg") == 1 + reads


@pytest.mark.parametrize("name", BOXES, ids="box-{}".format)
def test_values_of_a_box_have_their_width_and_are_of_that_box_alone(name):
    values, objective = BOXES[name], make_objective("boxes", box=name)
    box = objective.regions_read(NUMBER).box
    found = values.of(box)
    assert found.shape == (*box.shape[:-1], values.width)
    assert found.dtype == np.float32 and np.isfinite(found).all()
    np.testing.assert_array_equal(values.of(box[3:5, 1:2]), found[3:5, 1:2])
    assert objective.needs(VOCAB).box_features == values.width
