"""JSON that may be damaged: its file, what is wrong, and the remedy in one line."""

import json
import os

import pytest
from etils import epath

from research.contract.errors import UserError
from research.files.checksums import find_damage
from research.files.json_files import NUMBER, read_json, read_json_lines

FIELDS = {"name": str, "count": int, "seconds": NUMBER, "parts": dict, "rows": list}
WHOLE = {"name": "x", "count": 1, "seconds": 0.5, "parts": {}, "rows": []}


def _damaged(path, content: bytes, **kwargs) -> str:
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"x\.json is damaged \(.*\); delete it"
    ) as found:
        read_json(path, "delete it", FIELDS, **kwargs)
    assert "\n" not in str(found.value) and len(str(found.value)) < 300
    return str(found.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b"\xff\xfe",
        b"[" * 9999,
        b'{"a":' * 9999,
        b"9" * 9999,
    ],
    ids=lambda content: repr(content[:9]),
)
def test_a_file_that_holds_no_object_is_named(tmp_path, content):
    _damaged(tmp_path / "x.json", content)


def test_what_is_no_file_is_not_read(tmp_path):
    """A pipe would wait for a writer, and a device may have no end."""
    (tmp_path / "x.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "x.json", tmp_path / "pipe"):
        with pytest.raises(
            UserError, match=r"\(a pipe or a device, not a file\); mend"
        ):
            read_json(path, "mend it")
        with pytest.raises(UserError, match=r"is damaged .*; delete it"):
            read_json_lines(path, {})
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "checksums.json").symlink_to("/dev/zero")
    assert find_damage(epath.Path(folder)) == "checksums.json cannot be read"


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("name", 1, "'name' is not text"),
        ("count", 1.5, "'count' is not a whole number"),
        ("count", True, "'count' is not a whole number"),
        ("seconds", "1", "'seconds' is not a number"),
        ("seconds", float("inf"), "'seconds' is not below 1e+15"),
        ("count", -(10**400), "'count' is not below 1e+15"),
        ("parts", [], "'parts' is not an object"),
        ("rows", {}, "'rows' is not a list"),
    ],
)
def test_a_field_of_another_type_is_named(tmp_path, name, value, words):
    path = tmp_path / "x.json"
    assert words in _damaged(path, json.dumps(WHOLE | {name: value}).encode())
    rest = {key: value for key, value in WHOLE.items() if key != name}
    assert f"{name} is missing" in _damaged(path, json.dumps(rest).encode())


def test_an_object_as_it_should_be_is_read(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(WHOLE | {"more": None}))
    assert read_json(path, "delete it", FIELDS) == WHOLE | {"more": None}
    assert "'count' is not text" in _damaged(path, path.read_bytes(), values=str)


@pytest.mark.parametrize(
    "line", ['{"loss": 1}', '{"step": 1.5}', '{"step": 1, "a": "b"}']
)
def test_a_line_of_metrics_has_a_step_and_numbers(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2.5}\n' + line + "\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl:2 is damaged"):
        read_json_lines(path, {"step": int}, values=NUMBER)
