"""Text files are UTF-8 whatever the locale: no call leaves the encoding to Python."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(
    file
    for name in ("research", "launch", "experiments")
    for file in (ROOT / name).rglob("*.py")
)
ENCODING_ARGUMENT = {"read_text": 0, "write_text": 1}
"""Method of a path -> the place of its argument `encoding`."""


def leaves_encoding_open(call):
    """Whether a call reads or writes text without saying in which encoding."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if any(keyword.arg == "encoding" for keyword in call.keywords):
        return False
    if name in ENCODING_ARGUMENT:
        return len(call.args) <= ENCODING_ARGUMENT[name]
    own = isinstance(call.func, ast.Name)
    if name != "open" or not (own or isinstance(call.func, ast.Attribute)):
        return False
    place = 1 if own else 0  # of the mode: open(path, mode), path.open(mode)
    mode = call.args[place] if len(call.args) > place else None
    if mode is None:
        return own or (not call.args and not call.keywords)
    return isinstance(mode, ast.Constant) and set(str(mode.value)) <= set("rwaxt+")


def open_encodings(source):
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and leaves_encoding_open(node)
    ]


def test_every_text_file_has_an_encoding():
    found = {file: open_encodings(file.read_text(encoding="utf-8")) for file in FILES}
    assert found and not {file: lines for file, lines in found.items() if lines}


@pytest.mark.parametrize(
    "call, found",
    [
        ("open(p)", True),
        ("open(p, 'w')", True),
        ("open(p, 'wb')", False),
        ("open(p, 'w', encoding='utf-8')", False),
        ("p.open('a')", True),
        ("p.open()", True),
        ("p.open('rb')", False),
        ("p.read_text()", True),
        ("p.read_text('utf-8')", False),
        ("p.write_text(t)", True),
        ("p.write_text(t, 'utf-8')", False),
        ("os.open(p, flags)", False),
    ],
)
def test_calls_without_an_encoding_are_found(call, found):
    assert bool(open_encodings(call)) == found
