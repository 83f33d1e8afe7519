"""Paths as users write them, and as other programs and machines can use them."""

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, Self

from etils import epath

from research.contract.errors import UserError, os_reason
from research.contract.notices import report

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
      UserError: it is no path; or it begins with ~, and the user has no home folder;
        or it is a URL, and of no bucket.
    """
    try:
        text = os.fspath(path)
        is_path = isinstance(text, str) and b"\0" not in os.fsencode(text)
    except (TypeError, UnicodeEncodeError):
        is_path = False
    if not is_path:
        raise UserError(f"{path!r:.60} is not a path: it must be Unicode text")
    if is_in_bucket(text):
        if not text.startswith(BUCKETS):
            raise UserError(
                f"{text} is neither a path nor a bucket: a bucket's URL begins with "
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


def files_below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files with `suffixes` in a folder and its subfolders, sorted.

    Left out, with a line on stderr, are links to folders, which may lead in a circle,
    and what is hidden, as by globs: copies that a notebook, an archive of macOS or a
    version control keeps next to the files (.ipynb_checkpoints, __MACOSX, .git).

    Raises:
      UserError: a subfolder cannot be read.
    """

    def refuse(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename}: cannot be read ({os_reason(error)})")

    found: list[Path] = []
    links: list[Path] = []
    hidden: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        links += [p for name in folders if (p := Path(parent, name)).is_symlink()]
        matching = [name for name in names if name.endswith(suffixes)]
        hidden += [Path(parent, n) for n in (*folders, *matching) if is_hidden(n)]
        found += [Path(parent, name) for name in matching if not is_hidden(name)]
        folders[:] = [name for name in folders if not is_hidden(name)]
    _print_left_out(folder, "links to folders", links)
    _print_left_out(folder, "hidden files and folders", hidden)
    return sorted(found)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is no part of a folder's content."""
    return name.startswith(".") or name == "__MACOSX"


def _print_left_out(folder: Path, noun: str, paths: Sequence[Path]) -> None:
    if paths:
        report(
            f"{folder}: {len(paths)} {noun} are left out, such as {min(paths)}; a glob "
            "names them"
        )
