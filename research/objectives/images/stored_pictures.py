"""What all objectives share that read the pictures of a store."""

from collections.abc import Iterable
from pathlib import Path

from etils import epath

from research.contract.errors import UserError
from research.data.store import pictures


class StoredPictures:
    """A base of objectives whose field `images` names a store."""

    images: str

    @property
    def store(self) -> pictures.Store:
        return pictures.open_store(self.images)

    def check_files(self, files: Iterable[Path]) -> None:
        """Raises UserError: a file has numbers of other pictures."""
        for file in files:
            if pictures.has_other_pictures(file, self.images):
                raise UserError(
                    f"{file} has numbers of the pictures in {file.parent}, but "
                    f"objective.images={self.images}; name captions and pictures of "
                    "one folder"
                )

    def save_to(self, workdir: epath.Path) -> None:
        pictures.write_shapes(self.store, workdir / pictures.SHAPES)
