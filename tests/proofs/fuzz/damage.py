"""Damages a file in one of many ways."""

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONTENTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 4,
    "null": b"null",
    "number": b"1e999",
    "list": b"[1]",
    "object": b"{}",
    "nested": b"[" * 9999,
}
"""Damages that replace the content of a file."""

DAMAGES = (
    "missing",
    *CONTENTS,
    "cut",
    "flipped",
    "line",
    "value",
    "without",
    "folder",
    "dangling",
    "circle",
    "pipe",
    "unreadable",
)
"""cut: at a position; flipped: four bytes; line: one of another writer between two;
value, without: of a JSON field; folder, dangling, circle, pipe: in place of the file,
two of them as links that lead nowhere or to themselves, the last without a writer;
unreadable: by its permissions, which root passes by (`permissions.obeyed`)."""

ODD_VALUES = (None, True, -1, math.inf, math.nan, 10**400, "", "x" * 300, "../x")
ODD_VALUES += ([], {}, [[1]])


def damage(path: Path, how: str, position: int, value: Any) -> None:
    """Damages a file or a folder; `how` is one of DAMAGES.

    Args:
      position: of the damage: byte, line or field, from the start again past the end.
      value: what a JSON field becomes.
    """
    if how == "unreadable":
        path.chmod(0)
        return
    data = path.read_bytes() if path.is_file() else b""
    at = position % max(1, len(data))
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    match how:
        case "cut":
            path.write_bytes(data[:at])
        case "flipped":
            flipped = bytes(255 - byte for byte in data[at : at + 4])
            path.write_bytes(data[:at] + flipped + data[at + 4 :])
        case "line":
            lines = data.split(b"\n")
            lines.insert(position % len(lines), b'{"step": 1, "x')
            path.write_bytes(b"\n".join(lines))
        case "value" | "without":
            path.write_text(_with_other_field(data, how, position, value))
        case "folder":
            path.mkdir()
        case "dangling":
            path.symlink_to(path.parent / "nowhere")
        case "circle":
            path.symlink_to(path)
        case "pipe":
            os.mkfifo(path)
        case _ if how in CONTENTS:
            path.write_bytes(CONTENTS[how])


def _with_other_field(data: bytes, how: str, position: int, value: Any) -> str:
    """JSON, or JSON Lines, of which one field is missing or has another value."""
    try:
        lines = [json.loads(data)]
    except ValueError:
        try:
            lines = [json.loads(line) for line in data.splitlines()]
        except ValueError:
            return ""
    holders = [each for line in lines for each in _objects(line) if each]
    if holders:
        holder = holders[position % len(holders)]
        name = list(holder)[position // 7 % len(holder)]
        if how == "without":
            del holder[name]
        else:
            holder[name] = value
    return "".join(json.dumps(line) + "\n" for line in lines)


def _objects(value: Any) -> Iterator[dict]:
    """The objects in a JSON value."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from _objects(each)
