"""Work shards: parts of a large corpus that processes divide among themselves.

Each process of a shared cache goes through the work shards and processes those that no
other process does; then one process joins the results. The joined result is the same,
byte for byte, for any number of processes.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from research.data.cache import cached_meta, delete, get_or_create

MIN_SHARD_BYTES = 2**30
"""Bytes of files after which the next work shard begins."""

ShardResult = tuple[Path, Mapping[str, Any]]
"""The folder of a work shard's result, and its `meta.json`."""


def group_files(texts: Sequence[Sequence[Path]]) -> list[list[Sequence[Path]]]:
    """The texts of each work shard, in order; a pure function of their files' sizes.

    Args:
      texts: files that are read together: one, or the sides of a parallel text.
    """
    groups, size = [[]], 0
    for files in texts:
        if size >= MIN_SHARD_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(files)
        size += sum(file.stat().st_size for file in files)
    return groups


def get_or_join(
    cache_dir: Path,
    category: str,
    cache_key: Mapping[str, Any],
    shards: Sequence[Any],
    create: Callable[[Path, Any], Mapping[str, Any]],
    join: Callable[[Path, list[ShardResult]], Mapping[str, Any]],
    *,
    find_damage: Callable[[Path], str] = lambda path: "",
) -> Path:
    """The folder cache_dir/category/HASH of `get_or_create`, joined from work shards.

    Args:
      create: fills a folder with the result of one of `shards`, and returns what its
        `meta.json` holds.
      join: fills the folder from the results of all work shards, in order, and returns
        what its `meta.json` holds.
      find_damage: see `get_or_create`; for a folder of either kind.
    """
    shard_category = f"{category}-shard"
    shard_keys = [{**cache_key, "portion": number} for number in range(len(shards))]

    def shard_folder(number: int, *, wait: bool) -> Path:
        return get_or_create(
            cache_dir,
            shard_category,
            shard_keys[number],
            lambda folder: create(folder, shards[number]),
            find_damage=find_damage,
            wait=wait,
        )

    def create_joined(folder: Path) -> Mapping[str, Any]:
        folders = [shard_folder(number, wait=True) for number in range(len(shards))]
        metas = [cached_meta(cache_dir, shard_category, key) for key in shard_keys]
        return join(folder, list(zip(folders, metas, strict=True)))

    for number in range(len(shards)):
        if cached_meta(cache_dir, category, cache_key):
            break
        shard_folder(number, wait=False)
    path = get_or_create(
        cache_dir, category, cache_key, create_joined, find_damage=find_damage
    )
    for key in shard_keys:
        delete(cache_dir, shard_category, key)
    return path
