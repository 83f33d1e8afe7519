"""The contract of every source of pictures, and of every kind of file of captions."""

import io
import json
import os

import numpy as np
import pytest
from PIL import Image

from launch.commands import embed, images, predict, score, show
from research.contract.errors import UserError
from research.data.read.picture_sources import FOLDER, open_source
from research.data.read.pictures import CAPTION_FILES, Columns, read_rows
from research.data.store.pictures import open_store, write_rows


def png(value: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (6, 4), (value, 0, 255 - value)).save(content, "png")
    return content.getvalue()


CONTENT = {
    "b.png": png(10),
    "in/a.PNG": png(200),
    "in/deep/c d.jpeg": png(90),
    "notes.txt": b"no picture",
}
PICTURES = sorted(name for name in CONTENT if name != "notes.txt")


def write(name, path, content):
    FOLDER.part_class(name, "source").write(path, content)


each_source = pytest.mark.parametrize("name", FOLDER.names())


@each_source
def test_it_has_the_pictures_that_were_written(name, tmp_path):
    path = tmp_path / "pictures"
    write(name, path, CONTENT)
    classes = {name: FOLDER.part_class(name, "source") for name in FOLDER.names()}
    assert [each for each, cls in classes.items() if cls.is_source(path)] == [name]
    source = open_source(path)
    assert type(source) is classes[name]
    assert source.called.startswith(("a ", "an "))
    assert source.names() == PICTURES
    for picture in PICTURES:
        assert source.read(picture, "x") == CONTENT[picture]


@each_source
@pytest.mark.parametrize("command", [embed, images, predict, score, show])
def test_the_help_of_commands_names_it(name, command):
    (action,) = (a for a in command.parser()._actions if a.dest == "pictures")
    assert FOLDER.part_class(name, "source").called in action.help


@each_source
def test_a_stamp_differs_where_the_picture_does(name, tmp_path):
    """And is the same where another one does, in another copy opened later."""
    path, stamps = tmp_path / "pictures", []
    for changed in ({}, {}, {"b.png": png(11)}):
        write(name, path, CONTENT | changed)
        if path.is_dir():
            for file, data in CONTENT.items():
                at = 10 + (changed.get(file, data) != data)
                os.utime(path / file, (at, at))
        source = open_source(path)
        stamps.append([source.stamp(picture, "x") for picture in PICTURES])
        assert json.loads(json.dumps(stamps[-1])) == stamps[-1]
    assert stamps[0] == stamps[1], "stamps of equal pictures differ"
    changed = [a != b for a, b in zip(*stamps[1:], strict=True)]
    assert changed[0], "a picture has the stamp of another one in its place"
    assert not any(changed[1:]), "a stamp changes with another picture"


@each_source
def test_what_is_not_there_is_one_line(name, tmp_path):
    path = tmp_path / "pictures"
    write(name, path, CONTENT)
    source = open_source(path)
    for missing in ("x.png", "in", "", "../pictures/x"):
        with pytest.raises(UserError, match=r"^C:7: there is no picture") as error:
            source.stamp(missing + ".png", "C:7")
        assert str(path) in str(error.value) and "\n" not in str(error.value)
        with pytest.raises(UserError, match=r"^C:7: .* cannot be decoded \("):
            source.read(missing + ".png", "C:7")


@each_source
def test_a_damaged_one_is_one_line_or_the_right_bytes(name, tmp_path):
    path = tmp_path / "pictures"
    write(name, path, CONTENT)
    if path.is_dir():
        return
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        wrong = bytes(255 - byte for byte in whole[at : at + 8])
        for damaged in (whole[:at], whole[:at] + wrong + whole[at + 8 :]):
            path.write_bytes(damaged)
            try:
                source = open_source(path)
                for picture in source.names():
                    source.stamp(picture, "x")
                    source.read(picture, "x")
            except UserError as error:
                assert "\n" not in str(error)


def test_what_is_no_source_is_one_line_that_names_all(tmp_path):
    (tmp_path / "text").write_text("no pictures")
    for path, reason in (("text", "it is none"), ("nothing", "No such file")):
        with pytest.raises(UserError, match=reason) as error:
            open_source(tmp_path / path)
        for name in FOLDER.names():
            assert FOLDER.part_class(name, "source").called in str(error.value)


@each_source
@pytest.mark.parametrize("suffix", CAPTION_FILES)
def test_each_source_makes_the_same_store_with_each_file_of_captions(
    name, suffix, tmp_path
):
    write(name, tmp_path / "pictures", CONTENT)
    file = tmp_path / f"captions{suffix}"
    example = CAPTION_FILES[suffix].example
    file.write_text(example)
    rows = read_rows(file, Columns(group="topic", label="topic"))
    assert [row.file for row in rows] == ["b.png", "in/a.PNG"]
    assert [row.captions for row in rows] == [("two cats",), ("a sea",)]
    assert [row.group for row in rows] == [row.label for row in rows] == ["x", "y"]
    assert all(row.where.startswith(f"{file}:") for row in rows)
    (tmp_path / "store").mkdir()
    source = open_source(tmp_path / "pictures")
    write_rows(tmp_path / "store", source, rows, size=(6, 4))
    pixels = open_store(str(tmp_path / "store")).pixels
    expected = [[10, 0, 245], [200, 0, 55]]
    np.testing.assert_array_equal(pixels[:, 2, 3], expected)
    file.write_text(example.replace("caption", "other"))
    with pytest.raises(UserError, match=r"captions.*:1: .*'caption'"):
        read_rows(file, Columns())
