"""The contract of every format of files; modules are found by listing the folder."""

import dataclasses
import gzip
import io
import itertools

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from research.contract.errors import UserError
from research.contract.fields import check
from research.data.read import files
from research.data.read.formats import FORMATS, FileOptions, by_suffix
from research.data.read.notations import notations


def parquet_file(rows: list[dict]) -> bytes:
    content = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), content)
    return content.getvalue()


RANDOM = np.random.default_rng(0).bytes(300)
FILES = {
    "nothing": b"",
    **{f"of {n}": FORMATS.part_class(n, "format").example for n in FORMATS.names()},
    "columns": b"one\ttwo\tthree\n1\t2\t3\n4\t5\t6\n",
    **{f"triples: {n}": each.example.encode() for n, each in notations().items()},
    "ragged columns": b"a\tb\nc\n\td\te\tf\n",
    "commas": b'a,b\n"1 ""x",2\n3,"4\n5"\n',
    "half an object": b'{"text": "A text."}\n{"text": "B',
    "another value": b'[1, null, {"a": []}]\n7\nnull\n',
    "bytes": RANDOM,
    "a NUL": b"A\0text\n\0\n",
    "a compressed file": gzip.compress(b"A text.\n" * 9),
    "a long line": b"word " * 30_000,
    "Parquet": parquet_file([{"text": "A text.", "label": 1}] * 9),
}
"""Each format reads one of these."""
DAMAGED = {
    name: content
    for name, content in FILES.items()
    if b"\0" in content and name not in ("bytes", "a NUL")
}
"""Binary files, which are also cut and have wrong bytes."""
for _name, _bytes in DAMAGED.items():
    FILES[f"half of {_name}"] = _bytes[: len(_bytes) // 2]
    for _start in range(0, len(_bytes), len(_bytes) // 4):
        _wrong = _bytes[:_start] + bytes(255 - b for b in _bytes[_start : _start + 8])
        FILES[f"{_name} wrong at {_start}"] = _wrong + _bytes[_start + 8 :]


@pytest.mark.parametrize("name", FORMATS.names())
def test_its_keys_are_legal_and_its_suffixes_are_its_own(name):
    cls = FORMATS.part_class(name, "data.format")
    check(cls())
    assert dataclasses.is_dataclass(cls) and cls.__doc__
    assert all(type(by_suffix()[suffix]) is cls for suffix in cls.suffixes)


@pytest.mark.parametrize("content", FILES)
@pytest.mark.parametrize("name", FORMATS.names())
def test_any_file_is_documents_or_one_line_that_names_it(name, content, tmp_path):
    path = tmp_path / "file.x"
    path.write_bytes(FILES[content])
    corpus = None

    def read():
        nonlocal corpus
        corpus = files.load_file_corpus(str(path), None, FileOptions(name))
        return [
            d for split in ("train", "valid", "test") for d in corpus.documents(split)
        ]

    try:
        documents = read()
    except UserError as error:
        assert "file.x" in str(error) and "\n" not in str(error)
        return
    for document in documents:
        assert document.text.strip() and document.arrays.keys() <= corpus.arrays.keys()
        assert [*document.starts] == sorted(document.starts)
        assert all(0 < start <= len(document.text) for start in document.starts)
        for key, value in document.arrays.items():
            counts = {"token": len(document.text), "part": len(document.starts) + 1}
            per = corpus.arrays[key].per
            assert per == "document" or len(value) == counts[per]
    again = read()
    assert [(d.text, d.label, d.id) for d in again] == [
        (d.text, d.label, d.id) for d in documents
    ]


@pytest.mark.parametrize("name", FORMATS.names())
def test_one_of_the_files_is_of_this_format(name, tmp_path):
    for content, fields in itertools.product(FILES.values(), ((), ("text",))):
        (tmp_path / "file.x").write_bytes(content)
        try:
            options = FileOptions(name, fields)
            corpus = files.load_file_corpus(str(tmp_path / "file.x"), None, options)
            if any([*corpus.documents(split)] for split in ("train", "valid", "test")):
                return
        except UserError:
            continue
    raise AssertionError(f"{name} reads none of FILES; its `example` is none of it")


@pytest.mark.parametrize("name", FORMATS.names())
def test_it_has_columns_if_the_name_of_one_matters(name, tmp_path):
    """With a column that its files lack they are none, or `fields` has no meaning."""

    def has_text(content, field):
        (tmp_path / "file.x").write_bytes(content)
        try:
            options = FileOptions(name, (field,))
            corpus = files.load_file_corpus(str(tmp_path / "file.x"), None, options)
            return any(any(corpus.documents(s)) for s in ("train", "valid", "test"))
        except UserError:
            return False

    read = [content for content in FILES.values() if has_text(content, "text")]
    needs_name = [content for content in read if not has_text(content, "lacking")]
    assert bool(needs_name) == FORMATS.part_class(name, "format").has_columns
