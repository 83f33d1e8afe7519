"""Rows of a task's file are read with all columns, or the line at fault is named."""

import pytest

from research.contract.errors import UserError
from research.data.read.formats.parsing.whole_rows import read_whole_rows


@pytest.mark.parametrize(
    ("name", "text", "fields", "words"),
    [
        (
            "a.jsonl",
            '{"text": "a"}\n[1]\n',
            (),
            r"jsonl:2: a line must be a JSON object, not",
        ),
        ("a.jsonl", '{"text": "a"}\n', ("tex",), "jsonl:1: unknown key 'tex'; did you"),
        ("a.jsonl", '{"text": 3}\n', (), r"jsonl:1: 'text' must be text, not 3"),
        ("a.tsv", "text\tlabel\na\tx\nb\n", ("text",), "tsv:3: has 1 columns, not 2"),
        ("a.tsv", "text\tlabel\na\tx\n", ("tex",), "tsv:1: unknown column 'tex'"),
        ("a.tsv", "a\tx\n", (), "has columns; name those of text"),
        ("a.txt", "a\n", (), r"its name does not end in \.jsonl, \.tsv"),
        ("a.jsonl", None, (), "is a folder, a pipe or a device, not a file"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, name, text, fields, words):
    if text is None:
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=words):
        read_whole_rows(tmp_path / name, fields)


def test_an_empty_table_has_no_rows(tmp_path):
    (tmp_path / "a.tsv").write_text("\n")
    found = read_whole_rows(tmp_path / "a.tsv", ("text",))
    assert (found.header, found.rows, found.fields) == ("", [], [])
