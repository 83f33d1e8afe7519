"""Checksums of a folder's files, by which damage is found before it is read."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from etils import epath

FILE = "checksums.json"
LATE = ("_CHECKPOINT_METADATA", "commit_success.txt")
"""Files at the top that Orbax touches when all else is written, and never needs."""

THREADS = 8
PIECE = 2**24
"""Bytes read at a time."""


def write(folder: epath.Path) -> None:
    """Writes the size and hash of every file of a folder, into that folder."""
    names = [name for name in _files(folder) if name not in LATE]
    with ThreadPoolExecutor(THREADS) as pool:
        facts = pool.map(lambda name: _facts(folder / name), names)
        text = json.dumps(dict(zip(names, facts, strict=True)), indent=1)
    (folder / FILE).write_text(text + "\n")


def exist(folder: epath.Path) -> bool:
    """Whether the folder was written to its end."""
    return (folder / FILE).exists()


def damage(folder: epath.Path) -> str:
    """The first file that is not as it was written, and how; "" if all are."""
    try:
        known = json.loads((folder / FILE).read_text())
        sizes = {name: size for name, (size, _) in known.items()}
    except (OSError, ValueError, AttributeError):
        return f"{FILE} cannot be read"

    def wrong(name: str) -> str:
        if not (folder / name).exists():
            return f"{name} is missing"
        size, digest = _facts(folder / name)
        if size != sizes[name]:
            return f"{name} has {size:,} bytes, not {sizes[name]:,}"
        return "" if digest == known[name][1] else f"{name} has other bytes"

    with ThreadPoolExecutor(THREADS) as pool:
        return next(filter(None, pool.map(wrong, known)), "")


def _facts(path: epath.Path) -> list:
    """Its size and hash."""
    digest, size = hashlib.blake2b(digest_size=16), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return [size, digest.hexdigest()]


def _files(folder: epath.Path, prefix: str = "") -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from _files(path, f"{prefix}{path.name}/")
        else:
            yield prefix + path.name
