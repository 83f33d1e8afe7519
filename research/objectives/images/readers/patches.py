"""A grid of square patches, after a class token."""

from dataclasses import dataclass
from typing import ClassVar

from research.contract.fields import number
from research.data.store.pictures import Store
from research.objectives.images import pixels
from research.objectives.images.readers.shared import grid


@dataclass(frozen=True)
class Reader(grid.Grid):
    """Patches, row by row (ViT, Dosovitskiy et al. 2021)."""

    patch: int = number(12, least=1)  # pixels of a patch's side

    example: ClassVar = {"patch": 4}

    def grid(self, store: Store) -> tuple[int, int]:
        return pixels.patch_grid(store, self.patch)
