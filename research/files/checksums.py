"""Checksums of the files of a folder, to find damage before it is read."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from etils import epath

from research.contract.errors import UserError
from research.files.existence import exists, is_file
from research.files.json_files import read_file

CHECKPOINTS = "checkpoints"
"""The folder of a workdir in which each checkpoint is a folder."""
CHECKSUMS_FILE = "checksums.json"
COMMITTED_FILE = "commit_success.txt"
"""The last file that Orbax writes; it reads no checkpoint in a bucket without it."""
UNCHECKED_FILES = ("_CHECKPOINT_METADATA", COMMITTED_FILE)
"""Files at the top that Orbax writes after all others; it needs no content of them."""

NUM_THREADS = 8
CHUNK_BYTES = 2**20  # of which Python allocates all, even for a small file


def write_checksums(folder: epath.Path) -> None:
    """Writes the size and hash of every file of a folder, into that folder."""
    names = [name for name in _files(folder) if name not in UNCHECKED_FILES]
    with ThreadPoolExecutor(NUM_THREADS) as pool:
        checksums = pool.map(lambda name: _size_and_hash(folder / name), names)
        text = json.dumps(dict(zip(names, checksums, strict=True)), indent=1)
    (folder / CHECKSUMS_FILE).write_text(text + "\n", encoding="utf-8")


def has_checksums(folder: epath.Path) -> bool:
    """Whether the folder was written completely: the checksums come last."""
    return exists(folder / CHECKSUMS_FILE)


def has_checkpoint(folder: epath.Path) -> bool:
    """Whether a folder is a checkpoint, or the workdir of a run that has finished one.

    Their content is not looked at.
    """
    finished = folder.glob(f"{CHECKPOINTS}/*/{CHECKSUMS_FILE}")
    return exists(folder / "params") or any(True for _ in finished)


def find_damage(folder: epath.Path) -> str:
    """The first file that is not as it was written, and how; "" if all are."""
    try:
        known = json.loads(read_file(folder / CHECKSUMS_FILE))
        sizes = {name: int(size) for name, (size, _) in known.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        sizes = {}
    if not sizes:  # of a folder without files nothing is written
        return f"{CHECKSUMS_FILE} cannot be read"

    def damage_of(name: str) -> str:
        if not is_file(folder / name):
            return f"{name} is missing"
        size, digest = _size_and_hash(folder / name)
        if size != sizes[name]:
            return f"{name} has {size:,} bytes, not {sizes[name]:,}"
        return "" if digest == known[name][1] else f"{name} has other bytes"

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        return next(filter(None, pool.map(damage_of, known)), "")


def item_metadata(checkpointer: Any, folder: epath.Path) -> Any:
    """What a checkpoint holds, item by item, as Orbax describes it.

    Raises:
      UserError: an array is missing, or a file that has no checksum is damaged.
    """
    path = folder / UNCHECKED_FILES[0]
    try:
        if exists(path) and not is_file(path):
            raise OSError("a pipe, a device or a folder")
        return checkpointer.metadata(folder).item_metadata
    except Exception as error:  # its type depends on what the damage is
        reason, *_ = [*str(error).splitlines(), type(error).__name__]
        raise UserError(
            f"{folder} cannot be read ({reason[:200]}); if its {path.name} is damaged, "
            "delete it: nothing needs it"
        ) from error


def _size_and_hash(path: epath.Path) -> list:
    digest, size = hashlib.blake2b(digest_size=16), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return [size, digest.hexdigest()]


def _files(folder: epath.Path, prefix: str = "") -> Iterator[str]:
    """The names of all files under a folder, relative to it."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path, f"{prefix}{path.name}/")
        else:
            yield prefix + path.name
