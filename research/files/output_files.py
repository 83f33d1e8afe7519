"""Files and folders that are written: they appear whole, or stay as they were."""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from etils import epath

from research.contract.errors import UserError, os_reason
from research.files.paths import is_in_bucket

SPECIAL_FOLDERS = ("/dev/", "/proc/")
"""Paths below these are streams of this process or devices."""

STREAM = re.compile(r"/dev/(stdout|stderr)|/(?:dev|proc/self)/fd/(\d+)")
"""Streams that are open already: a file to which a shell redirects one (`>> all.jsonl`)
keeps what it has."""

NEWLY_MADE_S = 60
"""Seconds in which a writer locks what it has made beside its target."""


def write_output(
    path: epath.PathLike, content: str | bytes | Iterable[bytes], flag: str
) -> None:
    """Writes a file that the user names; text is UTF-8. Creates its folder.

    Links are followed. What exists and is no regular file (a device, a pipe) is written
    to; a file appears whole, or stays as it was.

    Args:
      content: or its parts, one after the other.
      flag: that names the path, such as --to, for the error.

    Raises:
      UserError: it cannot be written; says why.
      OSError: of making the parts, where it names another file.
    """
    check_no_run_file(path, flag)
    content = content.encode("utf-8") if isinstance(content, str) else content
    parts = [content] if isinstance(content, bytes) else content
    text = os.fspath(path)
    try:
        if is_in_bucket(text):
            _replace(epath.Path(text), parts)
        elif stream := STREAM.fullmatch(text):
            sys.stdout.flush()
            descriptor = {"stdout": 1, "stderr": 2}.get(stream[1]) or int(stream[2])
            with open(os.dup(descriptor), "wb") as file:
                file.writelines(parts)
        elif text.startswith(SPECIAL_FOLDERS) or _is_special(text):
            with open(text, "wb") as file:
                file.writelines(parts)
        else:
            target = Path(os.path.realpath(text))
            target.parent.mkdir(parents=True, exist_ok=True)
            delete_unfinished(target)
            _replace(epath.Path(target), parts)
    except OSError as error:
        named = os.fspath(error.filename or text)
        if not os.path.realpath(text).startswith(os.path.realpath(named)):
            raise
        raise UserError(
            f"{flag}={text} cannot be written ({os_reason(error)})"
        ) from error


RUN_FILES = ("config.json", "metrics.jsonl", "provenance.json", "result.json")


def check_no_run_file(path: epath.PathLike, flag: str) -> None:
    """Raises UserError: a run has written the file, and needs it."""
    target = Path(os.path.realpath(os.fspath(path)))
    if target.name in RUN_FILES and (target.parent / "checkpoints").is_dir():
        raise UserError(
            f"{flag}={path} is a file of the run in {target.parent}, and would replace "
            "it; give another name"
        )


def check_output(
    path: epath.PathLike, flag: str, inputs: Mapping[str, epath.PathLike] | None = None
) -> None:
    """Checks what can be known of `write_output` before there is something to write.

    Args:
      inputs: flag -> file that is read.

    Raises:
      UserError: it cannot be written, or is a file that is read; says why.
    """
    check_no_run_file(path, flag)
    text = os.fspath(path)
    for name, file in (inputs or {}).items():
        both = os.path.isfile(text) and os.path.isfile(file)
        if both and os.path.samefile(text, file):
            raise UserError(f"{flag}={text} is {name}, and would replace it")
    if is_in_bucket(text) or text.startswith(SPECIAL_FOLDERS) or _is_special(text):
        return
    target = Path(os.path.realpath(text))
    reason = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = os_reason(error)
    if target.is_dir():
        reason = os.strerror(errno.EISDIR)
    elif not reason and not os.access(target.parent, os.W_OK):
        reason = os.strerror(errno.EACCES)
    if reason:
        raise UserError(f"{flag}={text} cannot be written ({reason})")


def _is_special(path: str) -> bool:
    """Whether it exists and is neither a regular file nor a folder."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def replace_text(path: epath.Path, text: str) -> None:
    """Writes a text in UTF-8 to a file that appears whole.

    A link of this name is replaced, not followed: the path is a name in a folder that
    another may have made.

    Raises:
      OSError: there is no room, or no permission; nothing is changed then.
    """
    _replace(path, [text.encode("utf-8")])


def _replace(path: epath.PathLike, parts: Iterable[bytes]) -> None:
    """Writes a file beside and renames it, so that no reader sees a part of it.

    Raises:
      OSError: there is no room, or no permission; nothing is changed then.
    """
    path = epath.Path(path)
    temporary, lock = path.with_name(f".{path.name}.{secrets.token_hex(8)}"), -1
    try:
        if is_in_bucket(path):
            with temporary.open("wb") as file:
                for part in parts:  # TensorFlow's files have no `writelines`
                    file.write(part)
        else:
            with open(temporary, "xb") as file:
                lock = _lock(os.dup(file.fileno()))
                file.writelines(parts)
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        is_own = isinstance(error, OSError) and error.filename in (None, f"{temporary}")
        if is_own and error.errno:  # names the file, and not the one beside it
            error.filename = os.fspath(path)
        raise
    finally:
        if lock >= 0:
            os.close(lock)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path`, which becomes `path` when the block has ended well.

    Args:
      path: it does not exist, or is an empty folder.

    Raises:
      UserError: it cannot be written; says why.
    """
    path = Path(os.path.realpath(path))
    with folder_beside(path) as unfinished:
        yield unfinished
        try:
            os.replace(unfinished, path)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            raise UserError(
                f"{path} has other files, maybe of another process, and stays as it "
                "is; name another folder"
            ) from error


@contextlib.contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A folder beside `path` for this block, which deletes it.

    It is locked until then; what a process left that was killed in this block is
    deleted by the next one for the same path.

    Raises:
      UserError: it cannot be written; says why.
    """
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({os_reason(error)})") from error
    delete_unfinished(path)
    unfinished, lock = path.with_name(f".{path.name}.{secrets.token_hex(8)}"), -1
    try:
        unfinished.mkdir()
        lock = _lock(os.open(unfinished, os.O_RDONLY))
        yield unfinished
    except BaseException as error:
        own = str(unfinished)
        if isinstance(error, OSError) and str(error.filename or own).startswith(own):
            raise UserError(f"{path} cannot be written ({os_reason(error)})") from error
        if isinstance(error, UserError):
            raise UserError(str(error).replace(own, str(path))) from error
        raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def delete_unfinished(path: epath.PathLike) -> None:
    """Deletes what processes that were killed as they wrote a path left beside it.

    What is locked is being written and stays, as does what cannot be deleted; what is
    empty may be about to be locked, for a minute. A bucket has no locks: all stays.
    """
    if is_in_bucket(path):
        return
    path = Path(path)
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}")
    for other in [p for p in path.parent.iterdir() if left.fullmatch(p.name)]:
        with contextlib.suppress(OSError):
            descriptor = os.open(other, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_old = time.time() - other.stat().st_mtime > NEWLY_MADE_S
                if other.is_dir() and (is_old or any(other.iterdir())):
                    shutil.rmtree(other)
                elif other.is_file() and (is_old or other.stat().st_size):
                    other.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> int:
    """Locks what is being written, if its file system has locks; returns it."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor
