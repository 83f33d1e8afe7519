"""Locks on files, which the system releases when the process that holds them ends."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def lock_file(
    path: os.PathLike, *, waiting_message: str | None = None
) -> Iterator[IO[str]]:
    """Holds an exclusive lock on a file, which is made if it does not exist.

    A process that inherits the file's descriptor keeps the lock as long as it lives.

    Args:
      waiting_message: what to print to stderr before waiting for the lock; None: do
        not wait.

    Yields:
      the file, open for reading and appending.

    Raises:
      BlockingIOError: the lock is held by another process, and there is no message.
    """
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting_message is None:
                raise
            print(waiting_message, file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def is_locked(path: os.PathLike) -> bool:
    """Whether a process holds the lock on a file."""
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
