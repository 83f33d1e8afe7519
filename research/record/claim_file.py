"""A claim on a folder of a bucket, which has no locks: one process writes it.

The claim is a file with the holder's host, process and time, which the holder rewrites
regularly. If it does not change for `DEAD_S` seconds, its holder is taken for dead and
replaced; one that lives after all, and finds that it was replaced, ends its process.
Clocks of two hosts are never compared.
"""

import contextlib
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

from etils import epath

from research.contract.errors import UserError
from research.distributed.peers import LOST_EXIT_CODE, exit_with_error
from research.files.json_files import NUMBER, read_json, write_json

HEARTBEAT_INTERVAL_S = 15.0
DEAD_S = 60.0
SETTLE_S = 2.0
"""Seconds after which the claim is read again: another process may have written it."""


@contextlib.contextmanager
def hold_claim(path: epath.Path) -> Iterator[None]:
    """Holds the claim in the file at `path` until the block ends or the process dies.

    If the last holder was killed, this waits for `DEAD_S` seconds.

    Raises:
      UserError: another process holds it; names its host and process.
    """
    _wait_for_end(path)
    own = {"host": platform.node(), "pid": os.getpid(), "time": time.time()}
    own["id"] = secrets.token_hex(8)
    write_json(path, own)
    time.sleep(SETTLE_S)
    found = _read(path)
    if found != own:
        raise _refused(path, found or own)
    ended = threading.Event()
    thread = threading.Thread(target=_renew, args=(path, own, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if _is_same(_read(path), own):
            path.unlink(missing_ok=True)


def _wait_for_end(path: epath.Path) -> None:
    """Waits until there is no claim or its holder is dead; raises if it lives."""
    first, began = _read(path), time.monotonic()
    if first:
        print(f"{path}: waiting for process {first['pid']} on {first['host']} to end")
    while first and time.monotonic() - began < DEAD_S:
        time.sleep(HEARTBEAT_INTERVAL_S / 5)
        found = _read(path)
        if not found:
            return
        if found != first:
            raise _refused(path, found)


def _renew(path: epath.Path, own: dict[str, Any], ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_INTERVAL_S):
        with contextlib.suppress(Exception):  # of the bucket; the next may succeed
            found = _read(path)
            if not _is_same(found, own):
                exit_with_error(LOST_EXIT_CODE, _taken_over(path, found))
            write_json(path, own | {"time": time.time()})


def _is_same(found: dict[str, Any] | None, own: dict[str, Any]) -> bool:
    """Whether a claim that was read is one's own."""
    return found is not None and found.get("id") == own["id"]


def _read(path: epath.Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    fields = {"host": str, "pid": int, "time": NUMBER}
    return read_json(path, "delete it, if no run writes this folder", fields)


def _taken_over(path: epath.Path, found: dict[str, Any] | None) -> str:
    what = f"is of process {found['pid']} on {found['host']}" if found else "is gone"
    return (
        f"another run has taken over {path.parent} while this one could not renew its "
        f"claim ({path.name} {what}); this one has ended"
    )


def _refused(path: epath.Path, claim: dict[str, Any]) -> UserError:
    since = time.strftime("%d %b %H:%M:%S", time.localtime(claim["time"]))
    return UserError(
        f"another run writes {path.parent} (process {claim['pid']} on {claim['host']}, "
        f"last seen {since}); stop it or give another --workdir"
    )
