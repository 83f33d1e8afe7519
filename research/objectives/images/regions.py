"""Regions of pictures: which are hidden or replaced, and what is read of boxes."""

# B batch, R regions of a picture

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.data import counter_rng
from research.data.store import pictures
from research.data.store.pictures import Store
from research.objectives.images.readers import BOX, Reader, Regions
from research.objectives.noise.masking import mask_budget

WAVES, WAVE_BASE = 256, 1000
"""For `sinusoids`: wavelengths per coordinate, and the ratio of their range."""


class Chosen(NamedTuple):
    """Regions that are to be predicted."""

    chosen: np.ndarray  # [B, R] bool
    hidden: np.ndarray  # [B, R] bool: chosen regions whose pixels are not read
    replaced: np.ndarray  # [B, R] bool: hidden regions with pixels of another region


def choose(
    key: np.ndarray,
    candidate: np.ndarray,
    *,
    rate: float,
    mask_fraction: float,
    random_fraction: float,
    most: int,
) -> Chosen:
    """Draws a fraction `rate` of the candidates [B, R], at most `most` per row."""
    count = mask_budget(candidate.sum(axis=1), rate, most)
    chosen = counter_rng.choose_subset(key, "regions", candidate, count)
    draw = counter_rng.uniform(key, "hidden regions", candidate.shape[1])
    hidden = chosen & (draw < mask_fraction + random_fraction)
    return Chosen(chosen, hidden, hidden & (draw >= mask_fraction))


def replace(
    key: np.ndarray,
    regions: Regions,
    replaced: np.ndarray,
    number: np.ndarray,
    store: Store,
    reader: Reader,
) -> None:
    """Gives replaced regions [B, R] values of other regions of the split, in place.

    Args:
      number: [B], the pictures of the rows.
    """
    width = replaced.shape[1]
    picture = pictures.pictures_of_split(key, "regions from", number, width, store)
    there = reader.there(store, picture)  # [B, R, R]
    draw = counter_rng.uniform(key, "region from", width)
    nth = (draw * there.sum(axis=-1)).astype(np.int64)
    region = (np.cumsum(there, axis=-1) > nth[..., None]).argmax(axis=-1)
    for row, n in np.argwhere(replaced & there.any(axis=-1)):
        found = reader.read_one(store, picture[row, n], region[row, n])
        regions.values[row, 1 + n] = found


def sinusoids(box: jax.Array) -> jax.Array:
    """[..., 8 WAVES]: waves of centre, width and height of boxes [..., BOX].

    They are sines of each number in percent, then cosines (Su et al. 2020, section 3.1;
    jackroos/VL-BERT at 4373674, coordinate_embeddings).
    """
    x1, y1, x2, y2 = (100 * box[..., n] for n in range(4))
    coordinate = jnp.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], axis=-1)
    wave = np.float32(WAVE_BASE) ** (np.arange(WAVES, dtype=np.float32) / WAVES)
    angle = coordinate[..., None] / jnp.expand_dims(wave, range(coordinate.ndim))
    both = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    return both.reshape(*box.shape[:-1], -1)


class BoxValues(NamedTuple):
    """What is read of boxes."""

    line: str  # what it is, for users
    width: int
    of: Callable[[jax.Array], jax.Array]  # [..., BOX] -> [..., width]


BOXES = {
    "none": BoxValues("nothing", 0, lambda box: box[..., :0]),
    "edges": BoxValues("x1, y1, x2, y2", 4, lambda box: box[..., :4]),
    "corners": BoxValues("x1, y1, x2, y2 and the area", BOX, lambda box: box),
    "sinusoids": BoxValues(
        "sines and cosines of centre, width and height (VL-BERT)", 8 * WAVES, sinusoids
    ),
}
"""The values of `objective.box`."""
