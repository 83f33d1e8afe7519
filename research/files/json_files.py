"""JSON files: written whole, and the one reader of what may be damaged."""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from etils import epath

from research.contract.errors import UserError
from research.files.existence import exists
from research.files.output_files import replace_text

NUMBER = (int, float)
"""The type of a field that is any number."""
LIMIT = 1e15
"""Larger than any time in seconds, process id or step in a field."""

_TYPE_NAMES = {
    bool: "true or false",
    dict: "an object",
    int: "a whole number",
    list: "a list",
    str: "text",
}


def digest(content: Any) -> str:
    """A hash of a JSON value, 12 hex digits, independent of the order of keys."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_json(path: epath.PathLike, content: Any) -> None:
    """Writes a JSON file by `replace_text`; creates its folder where there is none."""
    path = epath.Path(path)
    text = json.dumps(content, indent=2) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
      ValueError: it is not JSON or not UTF-8, or nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_file(path: epath.PathLike) -> bytes:
    """The content of a file.

    Raises:
      ValueError: it is a pipe or a device, which may have no end.
    """
    local = os.fspath(path)
    if os.path.exists(local) and not (os.path.isfile(local) or os.path.isdir(local)):
        raise ValueError("a pipe or a device, not a file")
    return epath.Path(path).read_bytes()


def read_json(
    path: epath.PathLike,
    remedy: str,
    fields: Mapping[str, Any] | None = None,
    *,
    values: Any = None,
) -> dict[str, Any]:
    """The object in a JSON file.

    Args:
      remedy: the end of the error's line: what to do about a damaged file.
      fields: names that the object must have -> type, or types, of their values.
      values: type, or types, of all values; None: any.

    Raises:
      UserError: the file holds something else; the line ends with `remedy`.
    """
    try:
        content = parse_json(read_file(path))
        check_object(content, fields or {}, values=values)
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); {remedy}") from error
    return content


def check_object(
    content: Any, fields: Mapping[str, Any], *, values: Any = None
) -> None:
    """Checks that a JSON value is an object with the given fields; see `read_json`.

    Raises:
      ValueError: says in half a line what it is instead.
    """
    if not isinstance(content, dict):
        raise ValueError("not an object")
    for name, expected in fields.items():
        if name not in content:
            raise ValueError(f"{name} is missing")
        value = content[name]
        _check_type(name, value, expected)
        if isinstance(value, int | float) and not abs(value) < LIMIT:
            raise ValueError(f"{name!r} is not below {LIMIT:g}")
    if values:
        for name, value in content.items():
            _check_type(name, value, values)


def _check_type(name: str, value: Any, expected: Any) -> None:
    types = expected if isinstance(expected, tuple) else (expected,)
    if type(value) not in types:  # true is no number
        is_number = set(NUMBER) <= set(types)
        words = "a number" if is_number else _TYPE_NAMES[types[0]]
        raise ValueError(f"{name[:40]!r} is not {words}")


def read_json_lines(
    path: epath.PathLike, fields: Mapping[str, Any], *, values: Any = None
) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file, [] if there is none.

    A last line without its end, because it is being written or its writer was killed,
    is left out.

    Args:
      fields, values: of each line's object, as `read_json` takes them.

    Raises:
      UserError: another line is not such an object.
    """
    path = epath.Path(path)
    try:
        *lines, _ = read_file(path).split(b"\n") if exists(path) else [b""]
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); delete it") from error
    objects = []
    for number, line in enumerate(lines, start=1):
        try:
            content = parse_json(line)
            check_object(content, fields, values=values)
        except ValueError as error:  # also bytes that are not UTF-8
            raise UserError(
                f"{path}:{number} is damaged ({error}): {line[:40]!r}; bring the file "
                "back, or delete it: its lines up to the newest checkpoint are then "
                "lost"
            ) from error
        objects.append(content)
    return objects
