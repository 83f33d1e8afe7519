"""A cache on disk; a folder is named by the hash of what its content depends on."""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from etils import epath

from research.contract.errors import UserError, os_reason
from research.distributed.file_lock import file_lock
from research.files import checksums
from research.files.paths import is_in_bucket, user_path

META_FILE = "meta.json"
LARGE_BYTES = 2**32
"""Bytes from which on the check of a folder is announced, since it takes seconds."""

_INCOMPLETE = "incomplete"
"""What is wrong with a folder that no process has finished."""


def resolve_cache_dir(cache_dir: str) -> Path:
    """The folder of the config key `data.cache_dir`; "" is ~/.cache/palimpsest.

    Raises:
      UserError: it is not a folder of this machine (the cache is memory-mapped).
    """
    if is_in_bucket(cache_dir):
        raise UserError(
            f"data.cache_dir is {cache_dir!r}, but the cache is memory-mapped; "
            "give a local folder"
        )
    try:
        return Path(user_path(cache_dir or "~/.cache/palimpsest"))
    except UserError as error:
        raise UserError(f"data.cache_dir={cache_dir}: {error}") from error


def fingerprint(value: Any) -> str:
    """The hash of any JSON value, as 32 hex digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def read_meta(path: Path) -> dict | None:
    """The `meta.json` of a folder of `get_or_create`; None if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        meta = json.loads((path / META_FILE).read_bytes())
        return meta if isinstance(meta, dict) else None


def get_or_create(
    cache_dir: Path,
    category: str,
    cache_key: Mapping[str, Any],
    create: Callable[[Path], Mapping[str, Any]],
    *,
    find_damage: Callable[[Path], str] = lambda path: "",
    wait: bool = True,
) -> Path:
    """The folder cache_dir/category/HASH; one process creates it and the others wait.

    Each machine compares the files with their checksums when it first reads them, and
    again when a file's size, time of change or inode has changed. A damaged folder is
    named on standard error and created again.

    Args:
      cache_key: everything that the content depends on, as JSON. HASH is its hash, so
        renaming a key recreates every cached folder.
      create: fills the empty folder that it is given, and returns what `meta.json`
        holds in addition to `cache_key`.
      find_damage: returns the first file of a complete folder whose content is
        invalid, and why; "" if there is none. It runs in each call, so it must be fast.
      wait: wait for another process that is creating the folder; False: the returned
        folder may be incomplete.

    Raises:
      UserError: the cache cannot be written.
    """
    path = cache_dir / category / fingerprint(cache_key)
    if not _find_damage(path, find_damage):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        message = f"waiting for another process to make {category} {path.name}"
        with file_lock(_lock_path(path), wait_message=message, wait=wait) as lock:
            if lock and (damage := _find_damage(path, find_damage)):
                if damage != _INCOMPLETE:
                    print(f"{path}/{damage}; it is made again", file=sys.stderr)
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                meta = json.dumps({"cache_key": cache_key, **create(path)})
                (path / META_FILE).write_text(meta, encoding="utf-8")
                checksums.write_checksums(epath.Path(path))
                _record_check(path, _file_states(path))
    except OSError as error:
        raise UserError(
            f"data.cache_dir: cannot write to {cache_dir} ({os_reason(error)}); "
            "give a folder that can be written"
        ) from error
    return path


def cached_meta(
    cache_dir: Path, category: str, cache_key: Mapping[str, Any]
) -> dict | None:
    """The `meta.json` of a folder of `get_or_create`; None if it is not complete.

    The checksums are written last: a folder without them is incomplete. The files are
    not compared with them; `get_or_create` does that.
    """
    path = cache_dir / category / fingerprint(cache_key)
    return read_meta(path) if checksums.has_checksums(epath.Path(path)) else None


def delete(cache_dir: Path, category: str, cache_key: Mapping[str, Any]) -> None:
    """Deletes a folder of `get_or_create`, unless a process is creating it."""
    path = cache_dir / category / fingerprint(cache_key)
    if path.exists():
        with file_lock(_lock_path(path), wait=False) as lock:
            if lock and path.exists():  # no other process has deleted it meanwhile
                shutil.rmtree(path)
                for record in path.parent.glob(f"{path.name}.*{_CHECKED}"):
                    record.unlink(missing_ok=True)


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def _find_damage(path: Path, find_damage: Callable[[Path], str]) -> str:
    """The first file that was changed or is wrong, and how; "" if there is none.

    The bytes of files are not read if this machine has checked them before.
    """
    try:
        states = _file_states(path)
        if states != _checked_states(path):
            if not checksums.has_checksums(epath.Path(path)):
                return _INCOMPLETE
            size = sum(size for size, *_ in states.values())
            if size >= LARGE_BYTES:
                print(f"checking {size / 1e9:.1f} GB of {path}, once", file=sys.stderr)
            if damage := checksums.find_damage(epath.Path(path)):
                return damage
            _record_check(path, states)
        return find_damage(path)
    except FileNotFoundError:  # another process has begun to recreate it
        return _INCOMPLETE


_CHECKED = ".checked"


def _record_path(path: Path) -> Path:
    """The file in which this machine records its check of a folder of the cache."""
    return path.with_name(f"{path.name}.{platform.node()}{_CHECKED}")


def _file_states(path: Path) -> dict[str, list[int]]:
    """File -> size, time of change in ns and inode, of all files of a folder."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    stats = ((str(file.relative_to(path)), file.stat()) for file in files)
    return {name: [s.st_size, s.st_mtime_ns, s.st_ino] for name, s in stats}


def _checked_states(path: Path) -> dict[str, list[int]] | None:
    """The states of the files when this machine checked them; None: it did not."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return json.loads(_record_path(path).read_bytes())


def _record_check(path: Path, states: dict[str, list[int]]) -> None:
    """Records the states of checked files, if the cache can be written."""
    record = _record_path(path)
    unfinished = record.with_name(f"{record.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        unfinished.write_text(json.dumps(states), encoding="utf-8")
        unfinished.replace(record)
