"""A cache whose folders are named by the hash of everything that made them."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from research.errors import UserError

META = "meta.json"
"""Written last: a folder without it is not whole and is never read."""


def root(cache_dir: str) -> Path:
    """The cache's folder for the config key `data.cache_dir`.

    Raises:
      UserError: it is not a folder of this machine (the cache is memory-mapped).
    """
    if "://" in cache_dir:
        raise UserError(
            f"data.cache_dir is {cache_dir!r}, but the cache is memory-mapped; "
            "give a local folder"
        )
    return Path(cache_dir or "~/.cache/palimpsest").expanduser()


def fingerprint(made_of: Any) -> str:
    """32 hex digits that say what something was made of (any JSON value)."""
    text = json.dumps(made_of, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def read_meta(path: Path) -> dict | None:
    """What `once` wrote of a folder, or None when the folder is not whole."""
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
        sizes = {name: (path / name).stat().st_size for name in meta["files"]}
    except (OSError, ValueError, KeyError):
        return None
    return meta if sizes == meta["files"] else None


def once(
    cache: Path,
    kind: str,
    made_of: Mapping[str, Any],
    make: Callable[[Path], Mapping[str, Any]],
    *,
    wait: bool = True,
) -> Path:
    """The whole folder cache/kind/HASH; made by one process while the others wait.

    Args:
      made_of: everything that the content depends on; its hash is the name.
      make: fills the empty folder it is given, and returns what `meta.json` is to
        say beside `made_of` and the sizes of the files.
      wait: unless it does, the folder may be one that another process is making.

    Raises:
      UserError: the cache cannot be written.
    """
    path = cache / kind / fingerprint(made_of)
    if read_meta(path):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        what = f"{kind} {path.name}" if wait else None
        with _lock(path.with_suffix(".lock"), what) as held:
            if held and not read_meta(path):
                shutil.rmtree(path, ignore_errors=True)
                path.mkdir()
                _write_meta(path, {"made_of": made_of, **make(path)})
    except OSError as error:
        raise UserError(
            f"data.cache_dir: cannot write to {cache} ({error.strerror}); "
            "give a folder that can be written"
        ) from error
    return path


def find(cache: Path, kind: str, made_of: Mapping[str, Any]) -> dict | None:
    """What `meta.json` says of the whole folder that `once` would give; None: none."""
    return read_meta(cache / kind / fingerprint(made_of))


def forget(cache: Path, kind: str, made_of: Mapping[str, Any]) -> None:
    """Deletes what `once` made, unless a process is just making it."""
    path = cache / kind / fingerprint(made_of)
    if path.exists():
        with _lock(path.with_suffix(".lock"), None) as held:
            if held:
                shutil.rmtree(path)


def _write_meta(path: Path, meta: dict) -> None:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    sizes = {str(file.relative_to(path)): file.stat().st_size for file in files}
    unfinished = path / (META + ".tmp")
    unfinished.write_text(json.dumps({**meta, "files": sizes}), encoding="utf-8")
    os.replace(unfinished, path / META)


@contextlib.contextmanager
def _lock(path: Path, what: str | None) -> Iterator[bool]:
    """Holds a file lock, which the system lets go when its holder dies.

    Waits for it and says for what; None: says whether it could be had at once.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if what is None:
                yield False
                return
            print(f"waiting for another process to make {what}", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield True
