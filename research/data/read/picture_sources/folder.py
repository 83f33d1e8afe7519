"""Pictures of a folder, anywhere in it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from research.data.read import picture_sources


class Source(picture_sources.Source):
    """Names are paths below the folder."""

    called = "a folder"

    @classmethod
    def is_source(cls, path: Path) -> bool:
        return path.is_dir()

    def files(self) -> Iterable[str]:
        files = (each for each in self.path.rglob("*") if each.is_file())
        return (each.relative_to(self.path).as_posix() for each in files)

    def state(self, name: str) -> list[Any]:
        """The size, and the time of the last change."""
        state = (self.path / name).stat()
        return [state.st_size, state.st_mtime_ns]

    def content(self, name: str) -> bytes:
        return (self.path / name).read_bytes()
