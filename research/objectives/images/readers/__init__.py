"""Readers of pictures: what a network reads of a picture, the whole and its regions.

A module here defines a frozen dataclass `Reader(readers.Reader)`, or one of a base in
`readers/shared/`. It is found by listing the folder; its name is a value of
objective.regions, and its fields are keys of all objectives that read a picture after
its text.
"""

# B batch, H height, W width, R regions of a picture, F values of a region, ... any dims

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.parts import Folder
from research.data.store.pictures import Store
from research.objectives.images import pixels

FOLDER = Folder(
    "research.objectives.images.readers", "Reader", named_by="objective.regions"
)

HIDDEN = 128
"""The value of hidden pixels, which is 0 once they are scaled."""

BOX = 5
"""Values of a box: x1, y1, x2, y2 and its area, as fractions of the picture."""


class Regions(NamedTuple):
    """What is read of pictures: the whole first, then their regions."""

    values: np.ndarray  # [B, 1 + R, F]: pixels uint8, or others float32
    box: np.ndarray  # [B, 1 + R, BOX] float32; 0 for missing regions
    here: np.ndarray  # [B, 1 + R] bool


class Drawing(NamedTuple):
    """What a network reads of a picture, as pixels."""

    whole: np.ndarray  # [H, W, 3] uint8, with or without its regions
    crops: Sequence[np.ndarray] = ()  # [P, P, 3] of R regions; (): the whole has them


class Reader(abc.ABC):
    """The base of all readers: frozen dataclasses of numbers and strings."""

    of_boxes: ClassVar[bool] = False
    """Whether regions are the boxes of the store in their order, with their classes and
    the same position for all."""

    reads_whole: ClassVar[bool] = False
    """Whether the first position reads the values of the whole picture; if not, it is a
    class token with values 0."""

    example: ClassVar[Mapping[str, Any]] = {}
    """Fields that fit pictures of 12 x 12 pixels, if their defaults do not, for the
    laws."""

    dtype: ClassVar[Any] = np.uint8
    """Dtype of the values: uint8 for pixels, float32 for others."""

    @abc.abstractmethod
    def num_regions(self, store: Store) -> int:
        """R, for every picture of the store.

        Raises:
          UserError: the pictures have no such regions.
        """

    @abc.abstractmethod
    def num_values(self, store: Store) -> int:
        """F.

        Raises:
          UserError: as for `num_regions`.
        """

    def there(self, store: Store, number: np.ndarray) -> np.ndarray:
        """[..., R] bool: the regions that pictures [...] have; by default all."""
        return np.ones((*number.shape, self.num_regions(store)), bool)

    @abc.abstractmethod
    def read(self, store: Store, number: np.ndarray, hidden: np.ndarray) -> Regions:
        """What is read of pictures [B], without a trace of `hidden` regions [B, R].

        Hidden pixels are HIDDEN wherever they are read; other hidden values are 0.
        """

    def read_one(self, store: Store, number: int, region: int) -> np.ndarray:
        """[F]: what is read of one region of a picture if nothing is hidden."""
        hidden = np.zeros((1, self.num_regions(store)), bool)
        return self.read(store, np.array([number]), hidden).values[0, 1 + region]

    def scaled(self, values: jax.Array) -> jax.Array:
        """Float32 [..., F]: pixels from -1 to 1, and others as they are."""
        if self.dtype == np.uint8:
            return pixels.scaled(values, pixels.HALF)
        return jnp.asarray(values)

    def drawing(self, values: np.ndarray, store: Store) -> Drawing | None:
        """What `values` [1 + R, F] of a picture show; None: they are not pixels."""
        return None


def of_boxes() -> list[str]:
    """The readers whose regions are the boxes of the store."""
    parts: dict[str, type[Reader]] = {
        name: FOLDER.part_class(name, "regions") for name in FOLDER.names()
    }
    return [name for name, reader in parts.items() if reader.of_boxes]


def with_whole(boxes: np.ndarray) -> np.ndarray:
    """[B, 1 + R, BOX] float32: the whole picture, and boxes [B, R, 4], with areas."""
    whole = np.broadcast_to(np.array([0, 0, 1, 1.0]), (len(boxes), 1, 4))
    every = np.concatenate([whole, boxes], axis=1)
    area = (every[..., 2:] - every[..., :2]).prod(axis=-1, keepdims=True)
    return np.concatenate([every, area], axis=-1).astype(np.float32)
