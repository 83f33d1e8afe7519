"""Paths as users write them, and as other programs and machines can use them."""

import fnmatch
import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from etils import epath

from research.contract.errors import UserError

BUCKETS = ("gs://", "s3://", "az://", "hf://")
"""Beginnings of the URLs that `epath` reads and writes."""


class LiteralPath(type(epath.Path("."))):
    """A local path whose `glob` takes no name above for a pattern.

    `epath` matches the whole path: below a folder such as `lr=[1]` it finds nothing,
    and Orbax, which joins the parts of a checkpoint by `glob`, loses all arrays.
    """

    def glob(self, pattern: str) -> Iterator[Self]:
        """The files and folders that match a pattern of names and slashes."""
        name, _, inner = pattern.partition("/")
        paths = self.iterdir() if self.is_dir() else ()
        matching = (path for path in paths if fnmatch.fnmatchcase(path.name, name))
        for path in matching:
            yield from path.glob(inner) if inner else (path,)


def is_in_bucket(path: epath.PathLike) -> bool:
    """Whether a path is a URL, such as gs://BUCKET/NAME."""
    return "://" in os.fspath(path)


def user_path(path: epath.PathLike) -> str:
    """A path that a user gives, with the home folder instead of a leading ~ or ~USER.

    Raises:
      UserError: it begins with ~, and the user has no home folder; or it is a URL, and
        of no bucket.
    """
    text = os.fspath(path)
    if is_in_bucket(text):
        if not text.startswith(BUCKETS):
            raise UserError(
                f"{text} is no path and no bucket: a URL begins with "
                f"{', '.join(BUCKETS)}"
            )
        return text
    expanded = os.path.expanduser(text)
    if Path(expanded).parts[:1] == ("~",):
        raise UserError(
            f"{text}: this user has no home folder; set HOME, or give a path without ~"
        )
    return expanded


def absolute_path(path: epath.PathLike) -> epath.Path:
    """A path as other programs and machines can use it: absolute, or a bucket's URL.

    Raises:
      UserError: as `user_path`.
    """
    text = user_path(path)
    return (
        epath.Path(text) if is_in_bucket(text) else LiteralPath(os.path.abspath(text))
    )


def find_paths(pattern: epath.PathLike) -> list[Path]:
    """The files and folders that match a path or a glob, sorted.

    A name of the path that is there as it is written is no pattern: `lr=[1]/*.txt` are
    the texts of the folder `lr=[1]`.

    Raises:
      UserError: as `user_path`.
    """
    path = Path(user_path(pattern))
    literal = next(p for p in (path, *path.parents) if os.path.exists(p))
    if literal == path:
        return [path]
    below = str(path.relative_to(literal))
    found = glob.glob(os.path.join(glob.escape(literal), below), recursive=True)
    return sorted(map(Path, found))
