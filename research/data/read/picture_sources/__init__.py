"""Sources of pictures: what a path of many pictures may be, such as a zip.

A module here defines a class `Source(picture_sources.Source)`. It is found by listing
the folder: nothing else names it.
"""

import abc
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from research.contract.errors import UserError, os_reason
from research.contract.parts import Folder

FOLDER = Folder(
    "research.data.read.picture_sources", "Source", named_by="images --pictures"
)

SUFFIXES = (".png", ".jpg", ".jpeg")
"""Of the files in a source that are pictures."""


class Source(abc.ABC):
    """The base of all sources: the pictures of a path, by their paths in it.

    A part opens `path` in `__init__`, and defines `is_source`, `files`, `state` and
    `content`, and `write` for the law. For a wrong or damaged source these raise
    OSError, KeyError, ValueError or one of `errors`; `stamp` and `read` turn them into
    one line.
    """

    called: ClassVar[str]
    """What it is, for errors and help, as in "a zip"."""

    errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Further errors that a damaged one raises."""

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    @abc.abstractmethod
    def is_source(cls, path: Path) -> bool:
        """Whether a path is such a source, judged by its content."""

    @staticmethod
    @abc.abstractmethod
    def write(path: Path, content: Mapping[str, bytes]) -> None:
        """Makes one with these files, by their paths in it.

        But for those of a folder, its times are the same whatever is in it.
        """

    @abc.abstractmethod
    def files(self) -> Iterable[str]:
        """The paths of all files in it, in any order, with slashes."""

    @abc.abstractmethod
    def state(self, name: str) -> list[Any]:
        """Plain JSON that changes with this file's content, and with no other file's.

        It may be a size and a CRC, or a time. Pictures whose state is unchanged are not
        decoded again.
        """

    @abc.abstractmethod
    def content(self, name: str) -> bytes:
        """The bytes of a file."""

    def names(self) -> list[str]:
        """The paths of all pictures, sorted."""
        return sorted(name for name in self.files() if is_picture(name))

    def stamp(self, name: str, where: str) -> list[Any]:
        """The `state` of a picture.

        Args:
          where: where it is named, for the error.

        Raises:
          UserError: there is no such picture.
        """
        try:
            return self.state(name)
        except (OSError, KeyError, ValueError, *self.errors) as error:
            raise UserError(
                f"{where}: there is no picture {name!r} in {self.path}; the column of "
                "files must have paths in it"
            ) from error

    def read(self, name: str, where: str) -> bytes:
        """The bytes of a picture.

        Raises:
          UserError: it cannot be read.
        """
        try:
            return self.content(name)
        except (OSError, KeyError, ValueError, *self.errors) as error:
            raise undecodable(name, where, os_reason(error)) from error


def is_picture(name: str) -> bool:
    """Whether a file is a picture, by its name."""
    return name.lower().endswith(SUFFIXES)


def _classes() -> list[type[Source]]:
    return [FOLDER.part_class(name, "source of pictures") for name in FOLDER.names()]


def kinds() -> str:
    """What a source may be, in words: "a folder or ..."."""
    return " or ".join(cls.called for cls in _classes())


def open_source(path: Path) -> Source:
    """Opens a path as a source of pictures.

    Raises:
      UserError: it is not one.
    """
    classes = _classes()
    errors = [error for cls in classes for error in cls.errors]
    try:
        for cls in classes:
            if cls.is_source(path):
                return cls(path)
        path.open("rb").close()  # raises the reason if it cannot be opened
        reason = "it is none"
    except (OSError, ValueError, *errors) as error:
        reason = os_reason(error)
    raise UserError(f"{path} must be {kinds()} of pictures ({reason})")


def undecodable(name: str, where: str, reason: str) -> UserError:
    """The error of a picture that cannot be read or decoded."""
    return UserError(
        f"{where}: {name} cannot be decoded ({reason}); replace it, or leave the row "
        "out"
    )
