"""Where a run's numbers come from: its config, code, packages, device and data."""

import datetime
import importlib.metadata
import json
import platform
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import jax
from etils import epath

from research.distributed import processes
from research.errors import UserError
from research.run.metric_writer import write_json

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "seqio")

VISIBLE = 60.0
"""Seconds that a shared file system may need to show a file to all."""

MOVABLE = (
    "data.cache_dir",
    "data.reader",
    "mesh.data",
    "mesh.fsdp",
    "mesh.tensor",
    "train.checkpoint_every",
    "train.keep_checkpoints",
)
"""Keys that a restart may change: the numbers do not depend on them."""


def gather(fingerprint: str) -> dict[str, Any]:
    """What made a run's numbers, besides its config.

    Args:
      fingerprint: of the data.
    """
    device = jax.devices()[0]
    return {
        "command": sys.argv,
        "started": datetime.datetime.now(datetime.UTC).isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "device": device.device_kind,
        "devices": jax.device_count(),
        "processes": jax.process_count(),
        "data": fingerprint,
    }


def _git(*command: str) -> str | None:
    """What git says of the code; None outside a checkout."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", *command], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def flat(section: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value of a nested dict."""
    found = {}
    for name, value in section.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = list(value) if isinstance(value, tuple) else value
    return found


def check_same(path: epath.Path, old: dict, new: dict) -> None:
    """Refuses to go on with another config than the one that a workdir began with.

    Raises:
      UserError: names the first key that differs.
    """
    old, new = flat(old), flat(new)
    for key in sorted(old.keys() | new.keys()):
        if key not in MOVABLE and old.get(key) != new.get(key):
            raise UserError(
                f"{path} is of another run: {key} is {old.get(key)!r} there and "
                f"{new.get(key)!r} now; give another --workdir, or delete this one"
            )


def make(workdir: epath.Path) -> None:
    """Makes the folder of a run.

    Raises:
      UserError: it cannot be made.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--workdir={workdir} cannot be made ({error.strerror}); give a folder "
            "that can be written"
        ) from error


def write(workdir: epath.Path, config: dict, provenance: dict) -> None:
    """config.json and provenance.json, before step 0; process 0 writes them.

    Raises:
      UserError: processes differ in config, code, packages, data or workdir.
    """
    made_of = ("commit", "packages", "data")
    same = {name: json.dumps(provenance[name], sort_keys=True) for name in made_of}
    processes.agree(config=json.dumps(config, sort_keys=True), **same)
    if jax.process_index() == 0:
        write_json(workdir / "config.json", config)
        write_json(workdir / "provenance.json", provenance)
    _check_shared(workdir / "provenance.json")


def _check_shared(path: epath.Path) -> None:
    """Waits until this process sees the file that process 0 has just written."""
    wanted, until = processes.from_first(_digest(path)), time.monotonic() + VISIBLE
    while _digest(path) != wanted:
        if time.monotonic() > until:
            raise UserError(
                f"--workdir={path.parent} of process {jax.process_index()} is not that "
                "of process 0; give a folder that all of them share"
            )
        time.sleep(0.2)


def _digest(path: epath.Path) -> int:
    return zlib.crc32(path.read_bytes() if path.exists() else b"") >> 1


def check_data(where: epath.Path, old: str, data: Any) -> None:
    """Refuses to go on with other text than a run began with.

    Raises:
      UserError: the data's fingerprint is not the one that the checkpoint tells.
    """
    if old != data.fingerprint:
        raise UserError(
            f"{where} was trained on other data ({old}) than data.* gives now "
            f"({data.fingerprint}); bring that data back or give another --workdir"
        )
