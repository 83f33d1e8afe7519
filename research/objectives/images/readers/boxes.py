"""Crops of boxes, each resized to a square, after the whole picture."""

# B batch, R boxes of a picture, P side of a crop

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from research.contract.fields import number
from research.data.store.pictures import Store
from research.objectives.images.readers import HIDDEN, Drawing, Regions, with_whole
from research.objectives.images.readers.shared import of_boxes


@dataclass(frozen=True)
class Reader(of_boxes.OfBoxes):
    """Replaces pixels of hidden boxes in the picture before anything is cropped.

    So neither the whole nor an overlapping crop shows them.
    """

    patch: int = number(12, least=1)  # pixels of the side to which a crop is resized

    example: ClassVar = {"patch": 4}

    def num_values(self, store: Store) -> int:
        return 3 * self.patch**2

    def read(self, store: Store, number: np.ndarray, hidden: np.ndarray) -> Regions:
        from PIL import Image

        boxes, side = store.boxes[number], (self.patch, self.patch)
        rows, count = boxes.shape[:2]
        height, width = store.pixels.shape[1:3]
        found = np.zeros((rows, 1 + count, self.num_values(store)), np.uint8)
        here = np.ones((rows, 1 + count), bool)
        here[:, 1:] = self.there(store, number)
        scale = np.array([width, height, width, height])
        begin = np.floor(boxes[..., :2] * scale[:2] + 1e-4).astype(int)
        end = np.ceil(boxes[..., 2:] * scale[2:] - 1e-4).astype(int)
        for row in range(rows):
            picture = store.pixels[number[row]].copy()
            for region in np.flatnonzero(hidden[row] & here[row, 1:]):
                (x, y), (right, below) = begin[row, region], end[row, region]
                picture[y:below, x:right] = HIDDEN
            image = Image.fromarray(picture)
            for region in np.flatnonzero(here[row]):
                area = (0, 0, width, height)
                if region:
                    area = (*begin[row, region - 1], *end[row, region - 1])
                crop = image.resize(side, Image.Resampling.BILINEAR, box=area)
                found[row, region] = np.asarray(crop).reshape(-1)
            found[row, 1:][hidden[row]] = HIDDEN
        return Regions(found, with_whole(boxes) * here[..., None], here)

    def read_one(self, store: Store, number: int, region: int) -> np.ndarray:
        """Crops only that region."""
        alone = store._replace(boxes=store.boxes[:, region, None])
        return super().read_one(alone, number, 0)

    def drawing(self, values: np.ndarray, store: Store) -> Drawing:
        whole, *crops = values.reshape(len(values), self.patch, self.patch, 3)
        return Drawing(whole, crops)
