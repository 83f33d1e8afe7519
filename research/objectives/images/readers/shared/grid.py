"""A picture cut into the cells of a grid, row by row."""

# B batch, H height, W width, R cells of a picture, F values of a cell

import abc
import math

import numpy as np

from research.data.store.pictures import Store
from research.objectives.images import pixels
from research.objectives.images.readers import (
    HIDDEN,
    Drawing,
    Reader,
    Regions,
    with_whole,
)


class Grid(Reader):
    """The base of readers of a grid, whose cells fill each picture of the store."""

    @abc.abstractmethod
    def grid(self, store: Store) -> tuple[int, int]:
        """Rows and columns of cells, which divide the height and width of pictures.

        Raises:
          UserError: they do not.
        """

    def num_regions(self, store: Store) -> int:
        rows, columns = self.grid(store)
        return rows * columns

    def num_values(self, store: Store) -> int:
        return math.prod(store.pixels.shape[1:]) // self.num_regions(store)

    def read(self, store: Store, number: np.ndarray, hidden: np.ndarray) -> Regions:
        rows, columns = self.grid(store)
        cut = pixels.cells(store.pixels[number], rows, columns)
        cut[hidden] = HIDDEN
        y, x = np.divmod(np.arange(rows * columns), columns)
        corners = [x / columns, y / rows, (x + 1) / columns, (y + 1) / rows]
        boxes = np.stack(corners, axis=-1)
        boxes = np.broadcast_to(boxes, (len(number), *boxes.shape))
        whole = np.zeros_like(cut[:, :1])
        here = np.ones((len(cut), 1 + cut.shape[1]), bool)
        return Regions(np.concatenate([whole, cut], axis=1), with_whole(boxes), here)

    def drawing(self, values: np.ndarray, store: Store) -> Drawing:
        shape = store.pixels.shape[1:]
        return Drawing(pixels.joined(values[1:], *self.grid(store), shape))
