"""Records what produced a run's numbers: config, code, packages, device and data."""

import datetime
import hashlib
import importlib.metadata
import json
import platform
import subprocess
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from etils import epath

from research.contract.errors import UserError
from research.distributed import processes
from research.files.json_files import write_json
from research.files.paths import is_hidden

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "seqio")

SHARED_FILE_TIMEOUT_S = 60.0
"""Seconds within which a shared file system shows a new file on all hosts."""


def gather_provenance(fingerprint: str, constants: Mapping[str, Any]) -> dict[str, Any]:
    """The content of provenance.json: what the numbers depend on beside the config.

    Args:
      fingerprint: the hash of the data.
      constants: `Constants.origins`.
    """
    return {
        "command": sys.argv,
        "started": datetime.datetime.now(datetime.UTC).isoformat(),
        "commit": _git("rev-parse", "HEAD"),
        "code": _code_hash(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "device": device_name(),
        "devices": jax.device_count(),
        "processes": jax.process_count(),
        "data": fingerprint,
        "constants": constants,
    }


def device_name() -> str:
    """The kind of JAX's devices; of a CPU, the processor that the system names."""
    kind = jax.devices()[0].device_kind
    return kind if kind != "cpu" else _processor_name(Path("/proc/cpuinfo"))


def _processor_name(cpuinfo: Path) -> str:
    """The model in Linux's list of processors; "cpu" and the machine if it has none."""
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return f"cpu ({platform.processor() or platform.machine()})"


def _code_hash() -> str:
    """A hash of the source files of `research`, whether they are committed or not."""
    root = Path(__file__).parents[1]
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if any(map(is_hidden, path.relative_to(root).parts)):
            continue
        total.update(f"{path.relative_to(root)} ".encode() + path.read_bytes())
    return total.hexdigest()[:12]


def _git(*command: str) -> str | None:
    """The output of a git command in this code's checkout; None if it is not one."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", *command], cwd=folder, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def write_provenance(
    workdir: epath.Path, config: Mapping[str, Any], provenance: dict[str, Any]
) -> None:
    """Writes provenance.json in process 0, before step 0.

    Raises:
      UserError: processes differ in config, code, packages, data, constants or
        workdir.
    """
    shared = {
        name: json.dumps(provenance[name], sort_keys=True)
        for name in ("commit", "code", "packages", "data", "constants")
    }
    processes.assert_equal_across_hosts(
        config=json.dumps(config, sort_keys=True), **shared
    )
    if jax.process_index() == 0:
        write_json(workdir / "provenance.json", provenance)
    _check_shared(workdir / "provenance.json")


def _check_shared(path: epath.Path) -> None:
    """Waits until this process sees the file that process 0 has just written."""
    expected = processes.broadcast_from_process_0(_checksum(path))
    deadline = time.monotonic() + SHARED_FILE_TIMEOUT_S
    while _checksum(path) != expected:
        if time.monotonic() > deadline:
            raise UserError(
                f"--workdir={path.parent} of process {jax.process_index()} is not the "
                "folder of process 0; give one that all processes share"
            )
        time.sleep(0.2)


def _checksum(path: epath.Path) -> int:
    """A 31-bit checksum of the file's content."""
    return zlib.crc32(path.read_bytes() if path.exists() else b"") >> 1
