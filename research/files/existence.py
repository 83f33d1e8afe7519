"""Whether files are there: what may not be looked at raises, and is not missing."""

import difflib
import errno
import os
import stat
from pathlib import Path

from etils import epath

from research.contract.errors import UserError
from research.files.paths import is_in_bucket


def exists(path: epath.PathLike) -> bool:
    """Whether there is such a file or folder; a link that leads nowhere is none.

    Raises:
      OSError: that cannot be told, such as for lack of permission. `Path.exists` of
        `epath` says false then.
      UserError: this machine cannot read the bucket.
    """
    text = os.fspath(path)
    if is_in_bucket(text):
        return _ask_bucket(text, "exists")
    try:
        os.stat(text)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return False
        raise
    return True


def is_file(path: epath.PathLike) -> bool:
    """Whether it is a file that can be read to its end: no folder, pipe or device.

    `Path.is_file` of `epath` takes the last two for files.

    Raises:
      PermissionError: that cannot be told.
      UserError: this machine cannot read the bucket.
    """
    text = os.fspath(path)
    if is_in_bucket(text):
        return _ask_bucket(text, "is_file")
    try:
        return stat.S_ISREG(os.stat(text).st_mode)
    except PermissionError:
        raise
    except OSError:
        return False


def files_in(folder: epath.PathLike, suffix: str) -> list[epath.Path]:
    """The files of a folder whose names end in `suffix`, sorted; [] if it is missing.

    Raises:
      OSError: the folder cannot be read. `Path.glob` finds nothing then.
    """
    folder = epath.Path(folder)
    if not exists(folder):
        return []
    return sorted(path for path in folder.iterdir() if path.name.endswith(suffix))


def _ask_bucket(url: str, question: str) -> bool:
    """The answer of `epath.Path` to a question about a URL, by its name.

    Raises:
      UserError: this machine cannot read the bucket.
    """
    try:
        return getattr(epath.Path(url), question)()
    except Exception as error:  # its type depends on the library that reads the bucket
        reason, *_ = [*str(error).splitlines(), type(error).__name__]
        raise UserError(f"{url} cannot be read ({reason})") from error


def missing_part(path: epath.PathLike) -> str:
    """The first part of a path or glob that is not there, with the nearest name.

    As in "no folder novells; did you mean novels?"; "" if all are there, or up to the
    first pattern, or if it is in a bucket.
    """
    if is_in_bucket(os.fspath(path)):
        return ""
    path = Path(path)
    for part in (*reversed(path.parents), path):
        if any(letter in part.name for letter in "*?["):
            return ""
        if exists(part):
            continue
        try:
            names = os.listdir(part.parent)
        except OSError:  # the parent is a file, or may not be read
            names = []
        near = difflib.get_close_matches(part.name, names, n=1)
        noun = "file or folder" if part == path else "folder"
        return f"no {noun} {part}" + "".join(
            f"; did you mean {part.parent / name}?" for name in near
        )
    return ""
