"""JSON files that are complete or absent, whenever the process is killed."""

import json
import os
from typing import Any

from etils import epath


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


def read_json_lines(path: epath.PathLike) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file, [] if there is none.

    A last line that is unfinished, because it is being written or its writer was
    killed, is left out.
    """
    path = epath.Path(path)
    lines = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return lines
