"""A cache on disk; each folder is named by the hash of everything that made it."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from research.distributed.file_lock import file_lock
from research.errors import UserError

META_FILE = "meta.json"
"""Written last: a folder without it is incomplete and is never read."""


def resolve_cache_dir(cache_dir: str) -> Path:
    """The folder of the config key `data.cache_dir`; "" is ~/.cache/palimpsest.

    Raises:
      UserError: it is not a folder of this machine (the cache is memory-mapped).
    """
    if "://" in cache_dir:
        raise UserError(
            f"data.cache_dir is {cache_dir!r}, but the cache is memory-mapped; "
            "give a local folder"
        )
    return Path(cache_dir or "~/.cache/palimpsest").expanduser()


def fingerprint(value: Any) -> str:
    """The hash of any JSON value, as 32 hex digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def read_meta(path: Path) -> dict | None:
    """The `meta.json` of a cached folder; None if the folder is incomplete."""
    try:
        meta = json.loads((path / META_FILE).read_text(encoding="utf-8"))
        sizes = {name: (path / name).stat().st_size for name in meta["files"]}
    except (OSError, ValueError, KeyError):
        return None
    return meta if sizes == meta["files"] else None


def get_or_create(
    cache_dir: Path,
    category: str,
    cache_key: Mapping[str, Any],
    create: Callable[[Path], Mapping[str, Any]],
    *,
    wait: bool = True,
) -> Path:
    """The folder cache_dir/category/HASH; one process creates it and the others wait.

    Args:
      cache_key: everything that the content depends on, as JSON. HASH is its hash, so
        renaming a key of it makes every cached folder anew.
      create: fills the empty folder that it is given, and returns what `meta.json`
        holds beside `cache_key` and the sizes of the files.
      wait: whether to wait for another process that is creating the folder; if not,
        the returned folder may be incomplete.

    Raises:
      UserError: the cache cannot be written.
    """
    path = cache_dir / category / fingerprint(cache_key)
    if read_meta(path):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        message = f"waiting for another process to make {category} {path.name}"
        with file_lock(_lock_path(path), wait_message=message, wait=wait) as lock:
            if lock and not read_meta(path):
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                _write_meta(path, {"cache_key": cache_key, **create(path)})
    except OSError as error:
        raise UserError(
            f"data.cache_dir: cannot write to {cache_dir} ({error.strerror}); "
            "give a folder that can be written"
        ) from error
    return path


def cached_meta(
    cache_dir: Path, category: str, cache_key: Mapping[str, Any]
) -> dict | None:
    """The `meta.json` of a folder of `get_or_create`; None if it is not complete."""
    return read_meta(cache_dir / category / fingerprint(cache_key))


def delete(cache_dir: Path, category: str, cache_key: Mapping[str, Any]) -> None:
    """Deletes a folder of `get_or_create`, unless a process is creating it."""
    path = cache_dir / category / fingerprint(cache_key)
    if path.exists():
        with file_lock(_lock_path(path), wait=False) as lock:
            if lock and path.exists():  # no other process has deleted it meanwhile
                shutil.rmtree(path)


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def _write_meta(path: Path, meta: dict) -> None:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    sizes = {str(file.relative_to(path)): file.stat().st_size for file in files}
    unfinished = path / (META_FILE + ".tmp")
    unfinished.write_text(json.dumps({**meta, "files": sizes}), encoding="utf-8")
    os.replace(unfinished, path / META_FILE)
