"""The workdir of a run: one run writes it, and a restart must have the same config."""

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping
from typing import Any

import jax
from etils import epath

from research.config.identity import complete_config, flatten, identity
from research.contract.errors import UserError, os_reason
from research.distributed import processes
from research.distributed.file_lock import file_lock
from research.files.existence import exists
from research.files.json_files import digest, read_json, write_json
from research.files.paths import is_in_bucket
from research.record.claim_file import hold_claim

LOCK_FILE = ".lock"
"""File in the workdir that a run locks while it writes; names its host and process."""

CLAIM_FILE = ".claim.json"
"""File that replaces LOCK_FILE in a bucket."""

CHANGEABLE_KEYS = (
    "data.cache_dir",
    "data.reader",
    "mesh.data",
    "mesh.fsdp",
    "mesh.tensor",
    "train.checkpoint_every",
    "train.checkpoint_words",
    "train.keep_checkpoints",
    "train.max_words",
    "train.profile_steps",
    "train.track",
)
"""Config keys that a restart may change, since the numbers do not depend on them."""

TELLING_KEYS = ("objective.name", "model.network", "train.steps", "data.corpus")
"""Keys that are named first where two configs differ."""
MAX_KEYS = 3
"""Keys that are named where two configs differ."""


@contextlib.contextmanager
def open_workdir(
    workdir: epath.Path, config: Mapping[str, Any]
) -> Iterator[dict[str, Any] | None]:
    """Makes the folder of a run and locks it until the block ends.

    If the block raises before it has written there, what was made is deleted.

    Yields:
      the result of the run if it has ended, else None.

    Raises:
      UserError: it cannot be made, is of another config, or another run writes it.
    """
    if exists(workdir / "config.json"):
        remedy = "give another --workdir, or delete it: the next start makes it again"
        old = read_json(workdir / "config.json", remedy)
        check_same_config(workdir, old, config)
    if processes.broadcast_from_process_0(exists(workdir / "result.json")):
        processes.print_from_process_0(f"{workdir} has its result already")
        yield read_result(workdir)
        return
    with contextlib.ExitStack() as stack:
        made = [p for p in (workdir, *workdir.parents) if not exists(p)]
        try:
            workdir.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_workdir(workdir))
        except OSError as error:
            raise UserError(
                f"--workdir={workdir} cannot be written ({os_reason(error)}); "
                "give a folder that can be written"
            ) from error
        try:
            yield None
        except BaseException:
            if jax.process_index() == 0 and not is_in_bucket(workdir):
                _remove_unused(made)
            raise


def _remove_unused(made: list[epath.Path]) -> None:
    """Deletes folders, the innermost first, if they have nothing but its own lock."""
    with contextlib.suppress(OSError):  # moved, or another run has begun beside it
        if made and os.listdir(made[0]) == [LOCK_FILE]:
            (made[0] / LOCK_FILE).unlink()
            for folder in made:
                os.rmdir(folder)


@contextlib.contextmanager
def lock_workdir(workdir: epath.Path) -> Iterator[None]:
    """Makes process 0 the only writer of a workdir, until the block ends or it dies.

    Buckets have no locks; there it holds a claim that it renews.

    Raises:
      UserError: another run holds the lock; names its host and process.
    """
    if jax.process_index() != 0:
        yield
        return
    if is_in_bucket(workdir):
        with hold_claim(workdir / CLAIM_FILE):
            yield
        return
    path = workdir / LOCK_FILE
    with file_lock(path, wait=False) as file:
        if file is None:
            holder = path.read_text("utf-8").strip()
            raise UserError(
                f"another run writes {workdir} ({holder}); stop it or give another "
                "--workdir"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        yield


def check_same_config(
    path: epath.Path, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    """Refuses to resume a workdir with another config than it was started with.

    Raises:
      UserError: a key differs; the first is named.
    """
    old, new = fixed_keys(complete_config(old, path / "config.json")), fixed_keys(new)
    differ = [key for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
    if not differ:
        return
    first = sorted(differ, key=lambda key: (key not in TELLING_KEYS, key))
    said = (
        f"{key} is {_said(old, key)} there and {_said(new, key)} now"
        for key in first[:MAX_KEYS]
    )
    more = f", and {len(differ) - MAX_KEYS} more" * (len(differ) > MAX_KEYS)
    raise UserError(
        f"{path} is of another run: {', '.join(said)}{more}; give another --workdir "
        "(--config.train.init_from=THIS starts from its parameters), or delete this one"
    )


def _said(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "the default"


def read_result(workdir: epath.Path) -> dict[str, Any]:
    """The content of result.json.

    Raises:
      UserError: it is damaged, or was edited.
    """
    path = workdir / "result.json"
    remedy = "delete it: the command of the run makes it again"
    result = read_json(path, remedy)
    if result.pop("digest", None) != digest(result):
        raise UserError(f"{path} was changed after the run wrote it; {remedy}")
    return result


def write_result(workdir: epath.Path, result: dict[str, Any]) -> None:
    """Writes result.json with a digest of its content, in process 0."""
    if jax.process_index() == 0:
        write_json(workdir / "result.json", result | {"digest": digest(result)})


def config_digest(config: Mapping[str, Any]) -> str:
    """A hash, 12 hex digits, of the keys that a restart may not change."""
    return digest(fixed_keys(config))


def fixed_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys and values of the `identity` that a restart may not change."""
    own = identity(flatten(config))
    return {key: value for key, value in own.items() if key not in CHANGEABLE_KEYS}


def check_same_run(
    workdir: epath.Path, old: dict[str, Any], new: dict[str, Any]
) -> None:
    """Refuses to resume from a checkpoint of another config or of other data.

    Args:
      old: facts of the checkpoint: `config` (a `config_digest`), `data` (a fingerprint)
        and `constants` (their `origins`).
      new: the same facts of the run.

    Raises:
      UserError: they differ.
    """
    if old.get("config") != new["config"]:
        raise UserError(
            f"{workdir} has a checkpoint of another config than the one given now; "
            "bring its config.json back or give another --workdir"
        )
    if old["data"] != new["data"]:
        raise UserError(
            f"{workdir} was trained on other data ({old['data']}) than data.* gives "
            f"now ({new['data']}); bring that data back or give another --workdir"
        )
    check_same_constants(workdir, old, new["constants"])


def check_same_constants(
    workdir: epath.Path, old: dict[str, Any], origins: dict[str, dict[str, str]]
) -> None:
    """Refuses to resume from a checkpoint of a run with other constants.

    Args:
      old: facts of the checkpoint, with `constants` (their `origins`).
      origins: the `origins` of the constants now.

    Raises:
      UserError: the constants differ.
    """
    for name, origin in origins.items():
        saved = old.get("constants", {}).get(name, {})
        if saved.get("checksum") != origin["checksum"]:
            raise UserError(
                f"{workdir} was trained with objective.{name}={saved.get('source')} of "
                f"checksum {saved.get('checksum')}, but {origin['source']} has "
                f"{origin['checksum']} now; bring that back or give another --workdir"
            )
