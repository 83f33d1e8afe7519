"""An exclusive lock on a file, among the processes that share its file system."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator
from typing import IO

from research.contract.errors import UserError
from research.files.existence import exists, is_file


@contextlib.contextmanager
def file_lock(
    path: str | os.PathLike, *, wait_message: str = "", wait: bool = True
) -> Iterator[IO[str] | None]:
    """Holds the lock; the kernel releases it when its last holder closes it or dies.

    A child process that inherits the descriptor of the file holds the lock too.

    Args:
      path: the lock file, which is made if it is missing; its content stays.
      wait_message: a line for standard error, printed if another process holds the
        lock and this one waits for it.
      wait: whether to wait for a lock that another process holds.

    Yields:
      the open lock file; None if another process holds the lock and `wait` is false.

    Raises:
      UserError: the path is that of a pipe, a device or a folder.
    """
    _check_file(path)
    with open(path, "a+", encoding="utf-8", opener=_open_no_link) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                yield None
                return
            if wait_message:
                print(wait_message, file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def is_locked(path: str | os.PathLike) -> bool:
    """Whether a process holds the lock; false where the lock file does not exist.

    Raises:
      UserError: as `file_lock`.
    """
    _check_file(path)
    try:
        with open(path, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _check_file(path: str | os.PathLike) -> None:
    """Checks that opening the path neither waits nor follows a link.

    It would wait for another process; by a link a lock's content would replace another
    file.
    """
    if os.path.islink(path) or (exists(path) and not is_file(path)):
        raise UserError(f"{path} is a lock, but not a file; delete it")


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
