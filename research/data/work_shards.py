"""A large corpus in portions, each made apart: by any process, on any machine.

Processes that share a cache share the work: each goes through the portions, makes what
nobody else is making, and one puts together what all have made. So a stream made by
many is the one that a single process makes, byte for byte.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from research.data.cache import find, forget, once

PORTION = 2**30
"""Bytes of files after which another portion begins."""

Portion = tuple[Path, Mapping[str, Any]]
"""A folder, and what its `meta.json` says."""


def group(files: Sequence[Path]) -> list[list[Path]]:
    """Files, in order, in portions; they depend on their sizes alone."""
    groups, size = [[]], 0
    for file in files:
        if size >= PORTION:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.stat().st_size
    return groups


def once_joined(
    cache: Path,
    kind: str,
    made_of: Mapping[str, Any],
    portions: Sequence[Any],
    make: Callable[[Path, Any], Mapping[str, Any]],
    join: Callable[[Path, list[Portion]], Mapping[str, Any]],
) -> Path:
    """The whole folder cache/kind/HASH, joined from portions, as `once` gives it.

    Args:
      make: fills a folder from a portion, and returns what its `meta.json` is to say.
      join: fills the folder from those of the portions, in order, likewise.
    """
    each = f"{kind}-portion"

    def part(number: int, *, wait: bool) -> Path:
        origin = {**made_of, "portion": number}
        return once(cache, each, origin, lambda f: make(f, portions[number]), wait=wait)

    def whole(folder: Path) -> Mapping[str, Any]:
        paths = [part(number, wait=True) for number in range(len(portions))]
        found = [find(cache, each, {**made_of, "portion": n}) for n in numbers]
        return join(folder, list(zip(paths, found, strict=True)))

    numbers = range(len(portions))
    for number in numbers:
        if find(cache, kind, made_of):
            break
        part(number, wait=False)
    path = once(cache, kind, made_of, whole)
    for number in numbers:
        forget(cache, each, {**made_of, "portion": number})
    return path
