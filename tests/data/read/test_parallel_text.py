"""Parallel text whose sides are files: line n of each is a part of one example."""

import gzip

import pyarrow
import pytest

from research.contract.errors import UserError
from research.data.read import files
from research.data.read.formats import FileOptions

SIDES = {
    "en": "a b\n\tc\nd \ne",
    "de": "x\r\ny\r\n\r\nz\r\n",
    "fr": "1\n",
    "gold": "0\n" * 4,
}
PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: pyarrow.compress(data, codec="zstd", asbytes=True),
}


def write(folder, stem="train", end="", **sides):
    """Files STEM.SIDE of a folder; and one of no text that is parallel."""
    for side, text in (SIDES | sides).items():
        if text is not None:
            file = folder / f"{stem}.{side}{end}"
            file.write_bytes(PACK[end](text.encode()))
    (folder / "README").write_text("none")
    return folder


def read(name, *fmt):
    corpus = files.load_file_corpus(str(name), None, FileOptions("auto", *fmt))
    return list(corpus.documents("train"))


@pytest.mark.parametrize("end", PACK)
def test_line_n_of_each_side_is_a_part_of_one_example(tmp_path, end, capsys):
    folder = write(tmp_path, "train", end)
    (folder / "other.tsv").write_text("de\ten\tgold\nx\ta b\t0\n")
    for name in (folder / "train.*", folder):
        found = read(name, ("en", "de"), "gold")
        expected = [("a b\nx", (4,)), ("\tc\ny", (3,)), ("e\nz", (2,))]
        if name == folder:
            expected.insert(0, expected[0])
        assert [(each.text, each.starts) for each in found] == expected
        assert {each.label for each in found} == {"0"}
        assert found[-1].id == f"train.en{end}:4"
        blank = (
            f"train.en{end}: 1 row, number 3: left out, since a field of data.fields is"
        )
        assert blank in capsys.readouterr().err
    size = sum((folder / f"train.{side}{end}").stat().st_size for side in ("de", "en"))
    assert read(folder / "train.*", ("en", "de"))[-1].amount_read == size


def test_files_of_one_stem_are_one_text_and_those_of_a_test_may_lack_labels(tmp_path):
    write(tmp_path, "train", en="a\n", de="b\n", gold="1\n")
    write(tmp_path, "test", en="c\n", de="d\n", gold=None)
    fmt = FileOptions("auto", ("en", "de"), "gold", optional=True)
    corpus = files.load_file_corpus(str(tmp_path / "t*"), None, fmt)
    found = [(each.text, each.label) for each in corpus.documents("test")]
    assert found == [("c\nd", None), ("a\nb", "1")]


WRONG = [
    ({"de": None}, ("en", "de"), "train.de: no such file beside train.en, train.fr"),
    ({"de": "x\ny\n"}, ("en", "de"), "train.en has 4, {}/train.de has 2"),
    ({"en": "x\ny\n"}, ("en", "de"), "train.en has 2, {}/train.de has 4"),
    ({}, (), "train.de has an unknown suffix; .* with data.fields=en,de"),
    ({}, ("es", "pt"), "train.de has an unknown suffix"),
    ({"en.gz": ""}, ("en", "de"), "train.en and {}/train.en.gz are the same side"),
]


@pytest.mark.parametrize(("sides", "fields", "message"), WRONG)
def test_wrong_sides_give_one_line(tmp_path, sides, fields, message):
    write(tmp_path, gold=None, **sides)
    with pytest.raises(UserError, match=message.format(tmp_path)) as error:
        read(tmp_path / "train.*", fields)
    assert "\n" not in str(error.value)
