"""JSON files that are complete or absent, whenever the process is killed."""

import json
import os
from typing import Any

from etils import epath

from research.errors import UserError


def write_json(path: epath.PathLike, content: Any) -> None:
    """Writes a JSON file by `replace_text`; creates its folder where there is none."""
    path = epath.Path(path)
    text = json.dumps(content, indent=2) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)


def replace_text(path: epath.Path, text: str) -> None:
    """Writes a temporary file and renames it, so that no reader sees a part of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def read_json(path: epath.PathLike, remedy: str) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
      UserError: the file holds something else; the line ends with `remedy`.
    """
    try:
        content = json.loads(epath.Path(path).read_bytes())
        if not isinstance(content, dict):
            raise ValueError("not an object")
    except ValueError as error:  # also bytes that are not UTF-8
        raise UserError(f"{path} is damaged ({error}); {remedy}") from error
    return content


def read_json_lines(path: epath.PathLike) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file, [] if there is none.

    A last line without its end, because it is being written or its writer was killed,
    is left out.

    Raises:
      UserError: another line is not a JSON object.
    """
    path = epath.Path(path)
    *lines, _ = path.read_bytes().split(b"\n") if path.exists() else [b""]
    objects = []
    for number, line in enumerate(lines, start=1):
        try:
            objects.append(json.loads(line))
            if not isinstance(objects[-1], dict):
                raise ValueError
        except ValueError as error:  # also bytes that are not UTF-8
            raise UserError(
                f"{path}:{number} is damaged: {line[:40]!r}; bring the file back, or "
                "delete it: its lines up to the newest checkpoint are then lost"
            ) from error
    return objects
