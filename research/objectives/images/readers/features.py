"""Features of boxes from the user's .npz file instead of their pixels."""

# B batch, R boxes of a picture, F features of a box

from dataclasses import dataclass

import numpy as np

from research.contract.errors import UserError
from research.data.store.pictures import Store
from research.objectives.images.readers import Regions, with_whole
from research.objectives.images.readers.shared import of_boxes


@dataclass(frozen=True)
class Reader(of_boxes.OfBoxes):
    """Features of hidden boxes are 0; the whole picture has the mean of the others."""

    dtype = np.float32

    def num_values(self, store: Store) -> int:
        """Raises UserError: the store has no features."""
        if store.features is None:
            raise UserError(
                "objective.regions=features needs pictures with features, but those of "
                "objective.images have none; give palimpsest images --features=F.npz"
            )
        return int(store.features.shape[2])

    def read(self, store: Store, number: np.ndarray, hidden: np.ndarray) -> Regions:
        assert store.features is not None
        boxes, found = store.boxes[number], np.array(store.features[number])
        there = self.there(store, number)
        seen = there & ~hidden
        found[~seen] = 0
        total = found.sum(axis=1, keepdims=True)
        mean = total / np.maximum(seen.sum(axis=1), 1)[:, None, None]
        here = np.concatenate([np.ones((len(boxes), 1), bool), there], axis=1)
        values = np.concatenate([mean, found], axis=1, dtype=np.float32)
        return Regions(values, with_whole(boxes) * here[..., None], here)
