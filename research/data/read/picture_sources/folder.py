"""Pictures of a folder, anywhere in it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from research.data.read import picture_sources


class Source(picture_sources.Source):
    """Names are paths below the folder."""

    called = "a folder"

    @classmethod
    def is_source(cls, path: Path) -> bool:
        return path.is_dir()

    @staticmethod
    def write(path: Path, content: Mapping[str, bytes]) -> None:
        for name, data in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)

    def files(self) -> Iterable[str]:
        files = (each for each in self.path.rglob("*") if each.is_file())
        return (each.relative_to(self.path).as_posix() for each in files)

    def state(self, name: str) -> list[Any]:
        """The size, and the time of the last change."""
        state = (self.path / name).stat()
        return [state.st_size, state.st_mtime_ns]

    def content(self, name: str) -> bytes:
        return (self.path / name).read_bytes()
