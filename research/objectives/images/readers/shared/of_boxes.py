"""Regions that are the boxes of the store."""

# R boxes of a picture

import numpy as np

from research.data.store.pictures import Store
from research.objectives.images.readers import Reader


class OfBoxes(Reader):
    """The base of readers of boxes; a picture may have fewer than R."""

    of_boxes = True
    reads_whole = True

    def num_regions(self, store: Store) -> int:
        return store.boxes.shape[1]

    def there(self, store: Store, number: np.ndarray) -> np.ndarray:
        boxes = store.boxes[number]
        return (boxes[..., 2:] > boxes[..., :2]).all(axis=-1)
