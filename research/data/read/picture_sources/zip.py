"""Pictures of a zip file."""

import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from research.data.read import picture_sources


class Source(picture_sources.Source):
    """Names are those of the members."""

    called = "a zip"
    errors = (zipfile.BadZipFile, zlib.error, RuntimeError)  # the last: it is encrypted

    def __init__(self, path: Path):
        super().__init__(path)
        self._zip = zipfile.ZipFile(path)

    @classmethod
    def is_source(cls, path: Path) -> bool:
        return zipfile.is_zipfile(path)

    @staticmethod
    def write(path: Path, content: Mapping[str, bytes]) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in content.items():
                file.writestr(name, data)

    def files(self) -> Iterable[str]:
        return self._zip.namelist()

    def state(self, name: str) -> list[Any]:
        """The size, and the CRC."""
        info = self._zip.getinfo(name)
        return [info.file_size, info.CRC]

    def content(self, name: str) -> bytes:
        return self._zip.read(name)
