"""A store of pictures: what is decoded, split and drawn, and what is refused."""

import io
import itertools
import json
import zipfile

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from launch.cli import exit_code_for
from launch.commands import images
from research.contract.errors import UserError
from research.data.read import pictures as read_pictures
from research.data.store import pictures
from tests.testing.example_batches import keys

RED = np.tile(np.uint8([250, 10, 20]), (8, 16, 1))


def png(array, **options) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG", **options)
    return out.getvalue()


def write(folder, rows, name="captions.jsonl"):
    """Twelve pictures of 16 x 8 pixels, and these rows of captions."""
    (folder / "p").mkdir(exist_ok=True)
    for n in range(12):
        content = png(np.full((8, 16, 3), 20 * n, np.uint8))
        (folder / "p" / f"{n}.png").write_bytes(content)
    text = rows if isinstance(rows, str) else "\n".join(map(json.dumps, rows))
    (folder / name).write_text(text)
    return [f"--pictures={folder / 'p'}", f"--captions={folder / name}"]


def rows(**more):
    return [{"file": f"{n}.png", "caption": f"grey {n}"} | more for n in range(12)]


def run(folder, flags, *more):
    own = [*flags, f"--to={folder / 'd'}", "--held-out=0.3", "--size=4x2", *more]
    images.run(images.parser().parse_args(own))
    return pictures.open_store(str(folder / "d"))


def lines(folder, split):
    text = (folder / "d" / f"{split}.captioned").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_pictures_are_rows_of_the_store(tmp_path):
    """Of a folder, in a table, and of a zip, in JSON lines with several captions."""
    flags = write(tmp_path, "file\tcaption\n0.png\tblack\n1.png\tgrey\n", "c.tsv")
    (tmp_path / "p" / "0.png").write_bytes(png(RED))
    store = run(tmp_path, flags, "--held-out=0.6")
    made = [*lines(tmp_path, "train"), *lines(tmp_path, "valid")]
    value = {line["text"]: store.pixels[line["image"]] for line in made}
    assert store.pixels.shape == (2, 2, 4, 3) and store.num_train == 1
    assert (value["black"] == [250, 10, 20]).all() and (value["grey"] == 20).all()
    assert isinstance(store.pixels, np.memmap)

    boxes = {"boxes": [[4, 2, 16, 8]], "classes": ["sky"], "label": "x"}
    flags = write(tmp_path, rows(**boxes, caption=["one", "two"]))
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as file:
        for path in (tmp_path / "p").iterdir():
            file.write(path, path.name)
    flags[0] = f"--pictures={tmp_path / 'p.zip'}"
    (tmp_path / "d").rename(tmp_path / "first")
    pictures._open.cache_clear()
    store = run(tmp_path, flags, "--label-column=label")
    assert store.class_names == ("sky",) and (store.classes == 0).all()
    assert np.allclose(store.boxes, [0.25, 0.25, 1, 1])
    train = lines(tmp_path, "train")
    assert len(train) == 2 * store.num_train and {x["label"] for x in train} == {"x"}


def test_classes_may_be_distributions(tmp_path):
    """Of weights, which are normalised; the likeliest is the class."""
    made = rows(boxes=[[0, 0, 8, 8], [8, 0, 16, 8]], classes=[{"b": 1, "a": 3}, "c"])
    made[0] |= {"classes": ["a", "b"]}
    store = run(tmp_path, write(tmp_path, made))
    assert store.class_names == ("a", "b", "c")
    assert sorted(store.classes.tolist()) == [[0, 1], *[[0, 2]] * 11]
    one = store.classes[:, 1] == 1
    assert (store.distributions[one] == [[[1, 0, 0], [0, 1, 0]]]).all()
    assert (store.distributions[~one] == [[[0.75, 0.25, 0], [0, 0, 1]]]).all()
    assert isinstance(store.distributions, np.memmap)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (RED[..., 0], 250),  # one channel
        (np.dstack([RED, 0 * RED[..., :1]]), 255),  # transparent: on white
        (RED[..., 0].astype(np.uint16) * 256, 250),  # 16 bits a value
    ],
)
def test_a_picture_of_another_kind_is_rgb(tmp_path, array, expected):
    flags = write(tmp_path, rows())
    for path in (tmp_path / "p").iterdir():
        path.write_bytes(png(array))
    assert (run(tmp_path, flags).pixels == expected).all()


def test_the_same_command_again_decodes_nothing(tmp_path, monkeypatch):
    flags = write(tmp_path, rows())
    run(tmp_path, flags)
    monkeypatch.setattr(pictures, "decode_picture", None)
    run(tmp_path, flags)
    with pytest.raises(UserError, match="other pictures, or these with other boxes"):
        run(tmp_path, flags, "--size=3")


def test_a_group_is_in_one_split_and_other_pictures_are_of_that_split(tmp_path):
    flags = write(tmp_path, [row | {"g": n % 4} for n, row in enumerate(rows())])
    store = run(tmp_path, flags, "--group-column=g", "--held-out=0.5")
    split = {}
    for name in ("train", "valid"):
        for line in lines(tmp_path, name):
            split.setdefault(int(line["text"].split()[1]) % 4, set()).add(name)
    assert {len(names) for names in split.values()} == {1}
    number = np.repeat(np.arange(12), 200)
    other = pictures.other_pictures(keys(2400), number, store)
    assert (other != number).all()
    assert ((other < store.num_train) == (number < store.num_train)).all()
    drawn, count = np.unique(other[number == 0], return_counts=True)
    assert len(drawn) == store.num_train - 1
    assert count.min() > 0.5 * 200 / len(drawn)


def bomb():
    """A picture of 20,000 x 20,000 pixels in a few hundred bytes of header."""
    content = bytearray(png(RED))
    content[16:24] = (20_000).to_bytes(4, "big") * 2
    import zlib

    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    return bytes(content)


def chunk_bomb():
    """A text of 80 MB, which has 80 kB where it is compressed."""
    info = PngImagePlugin.PngInfo()
    info.add_text("a", "x" * 80_000_000, zip=True)
    return png(RED, pnginfo=info)


@pytest.mark.parametrize(
    ("content", "change", "words"),
    [
        (None, {"file": "x.png"}, r"jsonl:1: there is no picture 'x.png' in .*p; the"),
        (png(RED)[:-30], {}, r"0.png cannot be decoded \(.*\); replace it"),
        (b"text", {}, r"0.png cannot be decoded \(it is no picture"),
        (b"", {}, r"0.png cannot be decoded"),
        (
            bomb(),
            {},
            "0.png is too large: a picture has at most 67,108,864 pixels; make",
        ),
        (chunk_bomb(), {}, r"0.png cannot be decoded \(Decompressed data too large"),
        (None, {"boxes": [[0, 0, 17, 8]]}, r"a box must be .* 16 x 8 pixels of 0.png"),
        (None, {"boxes": [[3, 0, 3, 8]]}, r"a box must be \[x1, y1, x2, y2\]"),
        (None, {"boxes": [[0, 0, 3]]}, "boxes must be lists of 4 numbers, got"),
        (
            None,
            {"boxes": [[0, 0, 0.5, 1]]},
            "boxes are in pixels, but no edge",
        ),
        (None, {"boxes": [[0, 0, 3, 3]], "classes": []}, None),
        (None, {"boxes": [[0, 0, 3, 3]], "classes": ["a", "b"]}, "a name for each box"),
        (
            None,
            {"boxes": [[0, 0, 3, 3]], "classes": [{"a": 0}]},
            "numbers above 0, got",
        ),
        (
            None,
            {"boxes": [[0, 0, 3, 3]], "classes": [{}]},
            "a name for each box, or an",
        ),
        (None, {"caption": " "}, "jsonl:1: the picture and its captions must be texts"),
        (None, {"file": "1.png", "boxes": [[0, 0, 2, 2]]}, None),
        (None, "file\tcaption\n0.png\ta\n1.png\n", r"tsv:3: has 1 columns, not 2"),
        (None, "path\tcaption\n0.png\ta\n", "'file'; known: .*; the first line names"),
        (None, '{"file": "0.png"}', "no key 'caption': there is file"),
        (None, "", "has no rows"),
        (None, '{"file": "0.png", "caption": "a"}', "all rows are of one group"),
        (None, '"0.png"', "jsonl:1: a line must be a JSON object, not '0.png'"),
    ],
    ids=itertools.count(),
)
def test_a_mistake_is_one_line(tmp_path, content, change, words):
    name = "captions.jsonl"
    if isinstance(change, str):
        name, own = ("c.tsv" if "\t" in change else name), change
    else:
        own = rows()
        own[0] |= change
    flags = write(tmp_path, own, name)
    if content is not None:
        (tmp_path / "p" / "0.png").write_bytes(content)
    if words is None:
        run(tmp_path, flags)
        return
    with pytest.raises(UserError, match=words) as error:
        run(tmp_path, flags)
    assert "\n" not in str(error.value) and exit_code_for(error.value)[0] == 2
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "c.txt",
            "",
            r"captions must be in a file \.tsv, \.csv or \.jsonl, not c\.txt",
        ),
        ("none.tsv", None, r"none\.tsv: cannot be read \(No such file"),
        ("c.csv", 'file,caption\n0.png,"a"b\n', r"c\.csv:2: not CSV \("),
    ],
)
def test_a_file_of_captions_that_is_none_is_refused(tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text)
    columns = read_pictures.Columns("file", ("caption",))
    with pytest.raises(UserError, match=words):
        read_pictures.read_rows(tmp_path / name, columns)


def test_what_is_no_store_of_captions_or_pictures_is_refused(tmp_path):
    (tmp_path / "a.captioned").write_text('{"file": "0.png"}\n')
    with pytest.raises(
        UserError, match="captioned:1: not a line that palimpsest images wrote"
    ):
        read_pictures.read_captioned(tmp_path / "a.captioned")
    with pytest.raises(UserError, match="has no pictures; their names end in"):
        read_pictures.list_pictures(tmp_path)


def test_a_picture_has_its_boxes_once():
    """A row without them says nothing of them."""

    def row(n, boxes=(), classes=()):
        return read_pictures.Row(f"c:{n}", "0.png", ("a",), "", None, boxes, classes)

    with_boxes = row(2, ((0.0, 0.0, 1.0, 1.0),), ("sky",))
    found = pictures.number_pictures([row(1), with_boxes, row(3)])
    assert found == {"0.png": with_boxes}
    other = row(4, ((0.0, 0.0, 2.0, 1.0),), ("sky",))
    with pytest.raises(UserError, match=r"c:4: 0\.png has other boxes .* in c:2; they"):
        pictures.number_pictures([with_boxes, other])


def test_a_row_names_no_picture_of_the_store():
    store = pictures.open_store("random")
    with pytest.raises(UserError, match=r"names picture 40, but objective.images has"):
        pictures.picture_numbers(np.full((1, 2), 40), np.ones(1, bool), store)
    with pytest.raises(UserError, match="is not a folder of palimpsest images"):
        pictures.open_store("nowhere")
    with pytest.raises(UserError, match=r"objective.images is not set"):
        pictures.open_store("")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, None),
        ({"0.png": None}, "has no array '0.png'"),
        ({"3.png": np.ones((2, 4))}, r"3.png must be numbers of shape \(1, 4\)"),
        (
            {"3.png": np.ones((1, 5))},
            r"of shape \(1, 4\), a row for each of its `boxes` in .*; got",
        ),
        ({"3.png": np.full((1, 4), np.nan)}, "3.png has values that are not numbers"),
        ("text", "is not an .npz of features"),
        (None, "is not an .npz of features"),
    ],
)
def test_features_of_an_npz(tmp_path, arrays, words):
    flags = write(tmp_path, rows(boxes=[[0, 0, 8, 8]]))
    file = tmp_path / "f.npz"
    own = {f"{n}.png": np.full((1, 4), n, np.float64) for n in range(12)}
    if isinstance(arrays, str):
        file.write_text(arrays)
    elif arrays is not None:
        own |= arrays
        np.savez(file, **{k: v for k, v in own.items() if v is not None})
    if words is None:
        store = run(tmp_path, flags, f"--features={file}")
        assert store.features.shape == (12, 1, 4)
        assert isinstance(store.features, np.memmap)
        made = [*lines(tmp_path, "train"), *lines(tmp_path, "valid")]
        for line in made:
            number = int(line["text"].split()[1])
            assert (store.features[line["image"]] == number).all()
        return
    with pytest.raises(UserError, match=words) as error:
        run(tmp_path, flags, f"--features={file}")
    assert "\n" not in str(error.value) and not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, None),
        ({"0.png": None}, "lacks an array of a picture: .*0.png"),
        ({"3.png": np.ones((2, 4))}, r"3.png must be finite numbers of shape \(1, 4\)"),
        ({"3.png": np.full((1, 4), np.nan)}, "3.png must be finite numbers"),
        (None, "is no .npz of vectors"),
    ],
)
def test_vectors_of_captions(tmp_path, arrays, words):
    flags, file = write(tmp_path, rows()), tmp_path / "v.npz"
    if arrays is not None:
        own = {f"{n}.png": np.full((1, 4), n, np.float64) for n in range(12)} | arrays
        np.savez(file, **{k: v for k, v in own.items() if v is not None})
    if words is None:
        store = run(tmp_path, flags, f"--caption-vectors={file}")
        for line in [*lines(tmp_path, "train"), *lines(tmp_path, "valid")]:
            vector = store.caption_vectors[line["vector"]]
            assert (vector == int(line["text"].split()[1])).all()
        return
    with pytest.raises(UserError, match=words):
        run(tmp_path, flags, f"--caption-vectors={file}")
